#!/usr/bin/env python3
"""The load of group_commit on the original's log writer: pylance's LanceDataset.mem_wal_writer with durable_write=True.

The clients are threads; they share one writer, or each has a writer on a shard of its own. A put returns when its log entry
is written, which happens when the writer's interval ends. It syncs nothing, so there is no sync to delay.

Prints the same JSON object as group_commit. Afterwards every writer is closed, which flushes it, and the ids of its
generations are compared with the acknowledged ones; a run in which they differ is void (exit code 1).
"""

import argparse
import json
import math
import pathlib
import sys
import threading
import time
import uuid

import lance
import pyarrow as pa
from lance.mem_wal import ShardWriter

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
                    pa.field("value", pa.int64())])


def row_id(client: int, sequence: int) -> str:
    return f"bench-{client:04x}-{sequence:012x}"


class Client(threading.Thread):
    def __init__(self, number: int, writer: ShardWriter, rows: int, start: threading.Barrier, options: argparse.Namespace):
        super().__init__(daemon=True)
        self.number = number
        self.acknowledged = 0  # rows; their ids are numbered from 0 without a gap
        self.latencies: list[float] = []  # of the puts that ended within the window
        self.error: Exception | None = None
        self._writer = writer
        self._rows = rows
        self._start = start
        self._options = options

    def run(self) -> None:
        self._start.wait()
        begin = time.perf_counter() + self._options.warmup
        end = begin + self._options.seconds
        try:
            while time.perf_counter() < end:
                sequence = range(self.acknowledged, self.acknowledged + self._rows)
                batch = pa.record_batch([pa.array([row_id(self.number, row) for row in sequence]), pa.array(sequence, pa.int64())],
                                        schema=SCHEMA)
                started = time.perf_counter()
                self._writer.put(batch)
                ended = time.perf_counter()
                self.acknowledged += self._rows
                if begin <= ended < end:
                    self.latencies.append(ended - started)
        except Exception as error:  # whatever the binding raises voids the run; main reports it
            self.error = error


def listed(table: str) -> list[str]:
    """Every id in the generations of all shards, copies included."""
    return [value for generation in sorted(pathlib.Path(table).glob("_mem_wal/*/*_gen_*"))
            for value in lance.dataset(str(generation)).to_table(columns=["id"])["id"].to_pylist()]


def quantile_ms(ordered: list[float], quantile: float) -> float:
    return round(ordered[max(1, math.ceil(len(ordered) * quantile)) - 1] * 1e3, 4) if ordered else 0.0


def run(options: argparse.Namespace) -> bool:
    table = str(pathlib.Path(options.directory) / "bench")
    lance.write_dataset(SCHEMA.empty_table(), table).initialize_mem_wal()
    settings = {} if options.interval_ms is None else {"max_wal_flush_interval_ms": options.interval_ms}
    writers = [lance.dataset(table).mem_wal_writer(str(uuid.uuid4()), durable_write=True, **settings)
               for _ in range(options.clients if options.shards == "per-client" else 1)]
    start = threading.Barrier(options.clients)
    clients = [Client(number, writers[number % len(writers)], options.rows_per_append, start, options)
               for number in range(options.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    entries = sum(writer.stats()["wal_flush_count"] for writer in writers)
    for writer in writers:
        writer.close()
    for client in clients:
        if client.error:
            raise client.error

    found = listed(table)
    expected = {row_id(client.number, row) for client in clients for row in range(client.acknowledged)}
    verified = len(found) == len(expected) and set(found) == expected
    ordered = sorted(latency for client in clients for latency in client.latencies)
    rows = len(ordered) * options.rows_per_append
    print(json.dumps({
        "rows": rows, "appends": len(ordered), "seconds": options.seconds, "rows_per_second": round(rows / options.seconds, 1),
        "p50_ms": quantile_ms(ordered, 0.5), "p99_ms": quantile_ms(ordered, 0.99), "acknowledged": len(expected),
        "entries": entries, "rows_per_entry": round(len(expected) / max(entries, 1), 3), "syncs": 0, "verified": verified}))
    if not verified:
        print(f"void: {len(expected)} rows are acknowledged, {len(found)} are listed, {len(expected & set(found))} are both",
              file=sys.stderr)
    return verified


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rows-per-append", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--shards", choices=["shared", "per-client"], default="shared")
    parser.add_argument("--interval-ms", type=int, help="max_wal_flush_interval_ms (default: the package's, 100)")
    parser.add_argument("--directory", required=True, help="an empty directory for the table")
    return 0 if run(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())
