#!/usr/bin/env python3
"""The load of load_generator on the original embedded store, lance_context.RolloutStore.

One store and one handle per client thread: a handle takes one add at a time, and two handles on one store fence each
other. Many logs side by side favour the original over one store that all clients share. Rows are the ones that
load_generator sends, prepared as dicts; an add gets a shallow copy with a fresh id. The store syncs nothing: durability `os`.

The Python method encodes each row as JSON under the interpreter lock, which is most of the time of a long token row. With
--preencoded the prepared JSON text goes straight to the native method below it, so that only the store is measured.

Prints the same JSON object as load_generator. Afterwards every store is flushed and its ids are read back with pylance; a
run in which they differ from the acknowledged ones is void (exit code 1).
"""

import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import lance
from lance_context import RolloutStore

ROOT = pathlib.Path(__file__).parents[1]
VARIANTS = {"small": 16, "tokens8k": 4}
ERRORS_SHOWN = 3


def prepared_records(generator: str, kind: str) -> list[dict]:
    lines = subprocess.run([generator, "--kind", kind, "--print-records", str(VARIANTS[kind])],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


class Client(threading.Thread):
    def __init__(self, number: int, directory: pathlib.Path, records: list[dict], options: argparse.Namespace):
        super().__init__(daemon=True)
        self.number = number
        self.uri = str(directory / f"bench-{number}.rollout.lance")
        self.store = RolloutStore.open(self.uri)
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self.errors: list[str] = []
        self.latencies: list[float] = []  # of the adds that ended within the window
        self.begin = self.end = 0.0
        self._records = records
        self._texts = [json.dumps([record]).partition(json.dumps(record["id"])) for record in records]
        self._preencoded = options.preencoded
        self._rows = options.rows_per_request
        self._flush_every = options.flush_every

    def run(self) -> None:
        sequence = adds = 0
        started = time.perf_counter()
        while started < self.end:
            ids = [f"bench-{self.number:04x}-{number:012x}" for number in range(sequence, sequence + self._rows)]
            sequence += self._rows
            try:
                self._add(ids, sequence)
                adds += 1
                if self._flush_every and adds % self._flush_every == 0:
                    self.store.flush()
            except Exception as error:  # whatever the binding raises is an error of the run, not of this program
                self.errors.append(f"{type(error).__name__}: {error}")
                self.unknown.update(ids)
            else:
                self.acknowledged.update(ids)
                ended = time.perf_counter()
                if self.begin <= ended < self.end:
                    self.latencies.append(ended - started)
            started = time.perf_counter()

    def _add(self, ids: list[str], turn: int) -> None:
        if self._preencoded:
            before, _, after = self._texts[turn % len(self._texts)]
            self.store._sync.add(f'{before}"{ids[0]}"{after}')
        else:
            records = self._records
            self.store.add([{**records[(turn + i) % len(records)], "id": row_id} for i, row_id in enumerate(ids)])

    def listed(self) -> list[str]:
        """Every id in the store, copies included."""
        self.store.flush()
        tables = [pathlib.Path(self.uri), *sorted(pathlib.Path(self.uri).glob("_mem_wal/*/*_gen_*"))]
        return [value for table in tables
                for value in lance.dataset(str(table)).to_table(columns=["id"])["id"].to_pylist()]


def quantile_ms(ordered: list[float], quantile: float) -> float:
    if not ordered:
        return 0.0
    return round(ordered[max(1, math.ceil(len(ordered) * quantile)) - 1] * 1e3, 4)


def encode_ms_per_row(records: list[dict]) -> float:
    """What the binding spends in Python on the JSON text of a row, under the interpreter lock."""
    rounds = 20
    started = time.perf_counter()
    for i in range(rounds):
        json.dumps(records[i % len(records)])
    return (time.perf_counter() - started) / rounds * 1e3


def run(options: argparse.Namespace, directory: pathlib.Path) -> bool:
    records = prepared_records(options.load_generator, options.kind)
    encode_ms = encode_ms_per_row(records)
    clients = [Client(number, directory, records, options) for number in range(options.clients)]
    begin = time.perf_counter() + options.warmup
    for client in clients:
        client.begin, client.end = begin, begin + options.seconds
    for client in clients:
        client.start()
    for client in clients:
        client.join()

    missing = doubled = strangers = listed_count = 0
    for client in clients:
        listed = client.listed()
        unique = set(listed)
        listed_count += len(unique)
        missing += len(client.acknowledged - unique)
        doubled += len(listed) - len(unique)
        strangers += len(unique - client.acknowledged - client.unknown)
    verified = missing + doubled + strangers == 0

    ordered = sorted(latency for client in clients for latency in client.latencies)
    errors = [error for client in clients for error in client.errors]
    for error in errors[:ERRORS_SHOWN]:
        print(f"error: {error[:500]}", file=sys.stderr)
    rows = len(ordered) * options.rows_per_request
    print(json.dumps({
        "rows": rows, "requests": len(ordered), "errors": len(errors), "seconds": options.seconds,
        "rows_per_second": round(rows / options.seconds, 1),
        "p50_ms": quantile_ms(ordered, 0.5), "p99_ms": quantile_ms(ordered, 0.99), "p999_ms": quantile_ms(ordered, 0.999),
        "acknowledged": sum(len(client.acknowledged) for client in clients), "listed": listed_count, "verified": verified,
        "python_encode_ms_per_row": round(encode_ms, 4)}))
    if not verified:
        print(f"void: {missing} acknowledged rows are not listed, {doubled} are listed again, {strangers} were never sent",
              file=sys.stderr)
    return verified


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--kind", choices=sorted(VARIANTS), default="small")
    parser.add_argument("--rows-per-request", type=int, default=1)
    parser.add_argument("--flush-every", type=int, default=0, help="flush() after every K adds of a client; 0 = never")
    parser.add_argument("--preencoded", action="store_true", help="leave out the binding's JSON encoding; one row a request")
    parser.add_argument("--directory", help="an empty directory for the stores (default: a temporary one)")
    parser.add_argument("--load-generator", default=str(ROOT / "build/release/bench/load_generator"))
    options = parser.parse_args()
    if options.preencoded and options.rows_per_request != 1:
        parser.error("--preencoded sends one row a request")
    directory = pathlib.Path(options.directory or tempfile.mkdtemp(prefix="original-peer-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return 0 if run(options, directory) else 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
