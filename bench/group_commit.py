#!/usr/bin/env python3
"""Group commit: rows/s of one shard under syncs of a given cost, beside the original's log writer, in turns, on this machine.

Each window is a process of its own over an empty directory. In a round every system gets one window for each number of clients and
rows an append; every second round goes through the systems in reverse (ABBA). Prints tables, writes
bench/results/DATE-group-commit.json, and with --write-docs the section "Group commit" of docs/benchmarks.md. Exits with 1 when a
run was void: rows lost, doubled or made up.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import sys
import time
from typing import Iterator, NamedTuple

import machine
import report
import run

PROGRAM = os.environ.get("GROUP_COMMIT_BIN", str(run.ROOT / "build/release/bench/group_commit"))
SECTION = "Group commit"


class Original(NamedTuple):
    name: str
    writers: str
    interval: str
    arguments: tuple[str, ...]
    least_clients: int = 1


ORIGINALS = [
    Original("original", "one for all", "100 ms, the default", ("--shards=shared",)),
    Original("original-1ms", "one for all", "1 ms", ("--shards=shared", "--interval-ms=1")),
    Original("original-shards", "one each, a shard each", "100 ms, the default", ("--shards=per-client",), least_clients=2),
    Original("original-shards-1ms", "one each, a shard each", "1 ms", ("--shards=per-client", "--interval-ms=1"), least_clients=2),
]
OUR_HEAD = ("clients", "sync delay", "rows/s", "rows an entry", "p50 ms", "p99 ms", "rows/s ÷ original", "÷ original, 1 ms",
            "÷ original, a shard each", "÷ original, a shard each, 1 ms")
THEIR_HEAD = ("clients", "writers", "interval", "rows/s", "rows an entry", "p50 ms", "p99 ms")


def our_name(delay_ms: float) -> str:
    return f"sarissa-{delay_ms:g}ms"


def windows(options: argparse.Namespace) -> Iterator[tuple[dict, list[str]]]:
    """What a window measures, and the command without its directory."""
    ours = [(our_name(delay), 1, [PROGRAM, "--sync-delay-ms", f"{delay:g}", "--storage-threads", str(options.storage_threads)])
            for delay in options.delays_ms]
    theirs = [(original.name, original.least_clients,
               [sys.executable, str(run.ROOT / "bench/group_commit_original.py"), *original.arguments]) for original in ORIGINALS]
    for turn in range(options.rounds):
        for rows in options.rows_per_append:
            for clients in options.clients:
                for system, least_clients, command in [*reversed(theirs), *reversed(ours)] if turn % 2 else [*ours, *theirs]:
                    if clients >= least_clients:
                        yield ({"round": turn, "kind": rows, "clients": clients, "system": system},
                               [*command, "--clients", str(clients), "--rows-per-append", str(rows), "--seconds", str(options.seconds),
                                "--warmup", str(options.warmup)])


def figures(runs: list[dict], rows: int, clients: int, system: str) -> list[str]:
    results = [one["result"] for one in runs if (one["kind"], one["clients"], one["system"]) == (rows, clients, system)]
    return [report.spread([result[field] for result in results]) for field in ("rows_per_second", "rows_per_entry", "p50_ms", "p99_ms")]


def our_lines(document: dict, rows: int) -> list[tuple[str, ...]]:
    settings, runs = document["settings"], document["runs"]
    return [(str(clients), f"{delay:g} ms", *figures(runs, rows, clients, our_name(delay)),
             *(report.spread(report.ratios(runs, rows, clients, our_name(delay), original.name), "×") for original in ORIGINALS))
            for clients in settings["clients"] for delay in settings["delays_ms"]]


def their_lines(document: dict, rows: int) -> list[tuple[str, ...]]:
    return [(str(clients), original.writers, original.interval, *figures(document["runs"], rows, clients, original.name))
            for clients in document["settings"]["clients"] for original in ORIGINALS if clients >= original.least_clients]


def rows_title(rows: int) -> str:
    return f"{rows} row{'s' if rows != 1 else ''} an append"


def section(document: dict) -> str:
    facts, settings = document["machine"], document["settings"]
    tables = "\n\n".join(f"""### {rows_title(rows)}

Sarissa:

{report.markdown_table(our_lines(document, rows), OUR_HEAD)}

The original, without any sync:

{report.markdown_table(their_lines(document, rows), THEIR_HEAD)}""" for rows in settings["rows_per_append"])
    return f"""Many clients append to one shard, and a sync costs a given time. The shard writer (`memwal::ShardWriter`, no HTTP) stands beside the
original's (pylance {facts["pylance"]}, `LanceDataset.mem_wal_writer(durable_write=True)`), in one run. This section is written by

    make bench-group-commit BENCH_FLAGS=--write-docs

which runs `{settings["command"]}`. `bench/results/{document["date"]}-group-commit.json` has every single run.
Date: {document["date"]}; commit {facts["commit"]}; {facts["cores"]} cores, load average {facts["load_average_before"]} at the start; {facts["file_system"]}.

{settings["rounds"]} rounds of {settings["seconds"]:g} s windows after {settings["warmup"]:g} s of warm-up; the systems take turns, every second round in reverse. A client is a thread
that sends an append of small rows (a key and a number) and waits for its acknowledgement. A figure is the median over the rounds with the
lowest and the highest in brackets; a ratio is taken within each round. After each window the rows are read back, ours by a new writer that
replays the log, and compared with the acknowledged ones, id by id; a difference makes the run void ({len(document["void"])} were).

- Sarissa syncs each log entry twice before it acknowledges, the file and then its directory. The delay is slept after each of these real
  syncs, on the storage thread: an entry costs at least twice the delay. The storage executor has {settings["storage_threads"]} threads (the server's default); one
  shard keeps at most two of them in syncs, one for the log and one for a flush, so no sleep waits for a thread.
- The original makes no sync call at all, so there is none to delay. It has one figure for each row of its table, and **our rows for every
  delay are compared with that one figure**: with rows that survive power loss on our side, and rows that are with the operating system on its
  side. Its `put` waits for the next tick of an interval instead, and the binding takes one `put` at a time, so clients that share a writer
  share no entry. The other rows show what gets round that: a tick of 1 ms, a shard for each client, or both.

{tables}

What they say and do not say:

- Rows an entry is group commit: with N clients an entry takes about N ÷ 2 appends. The next entry starts before the clients of the last one
  have their acknowledgements, so the clients fall into two groups that take turns, and an append waits for up to two entries.
- What the delay costs one client cannot be grouped away: two syncs an append are its ceiling, so that a sync of about 50 ms would make it as slow
  as the original's default tick. A ratio below 1 is where that price shows: few clients beside a tick of 1 ms, and the slowest syncs beside a
  shard for each client. The original pays no sync there.
- The delay is a sleep: the syncs of two files do not queue for one device as they would on a disk. With delay 0 the disk is a virtual one whose
  flush may cost next to nothing.
- Clients and writer share {facts["cores"]} cores with whatever else runs. A thread that wakes from a sync or a sleep queues for a core, often for a
  scheduler's slice of 4 ms: the figures of one client at 0 and 1 ms are mostly that. The original's clients are Python threads under one
  interpreter lock, which is nothing beside a tick of 100 ms but may hold back the rows with a tick of 1 ms or 64 shards.
- An acknowledgement later than the window is not in p50 and p99: those of {max(settings["clients"])} clients that queue for one writer of the original are too low.
"""


def print_tables(document: dict) -> None:
    for rows in document["settings"]["rows_per_append"]:
        print(f"\n{rows_title(rows)}\n{report.text_table(our_lines(document, rows), OUR_HEAD)}\n\n"
              f"{report.text_table(their_lines(document, rows), THEIR_HEAD)}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window")
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rows-per-append", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--delays-ms", type=float, nargs="+", default=[0, 1, 5, 20], help="added to every sync")
    parser.add_argument("--storage-threads", type=int, default=16)
    parser.add_argument("--scratch", default=str(run.ROOT / "build/bench-data"), help="where the directories are made and removed")
    parser.add_argument("--write-docs", action="store_true", help=f'rewrite the section "{SECTION}" of docs/benchmarks.md')
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    if not os.access(PROGRAM, os.X_OK):
        print(f"no program at {PROGRAM}: run `make bench-group-commit`", file=sys.stderr)
        return 2
    scratch = pathlib.Path(options.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    document = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%MZ"),
                "machine": machine.facts(run.ROOT, scratch),
                "settings": {"command": shlex.join(["bench/group_commit.py", *sys.argv[1:]]),
                             **{name: getattr(options, name) for name in
                                ("rounds", "seconds", "warmup", "clients", "rows_per_append", "delays_ms", "storage_threads")}},
                "runs": [], "void": []}
    for number, (what, command) in enumerate(windows(options)):
        directory = scratch / f"{os.getpid()}-group-commit-{number}"
        directory.mkdir()
        try:
            result = run.measure([*command, "--directory", str(directory)])
        except run.Void as error:
            document["void"].append({**what, "reason": str(error)})
            print(f"VOID {what}: {error}", file=sys.stderr)
            continue
        finally:
            # What is deleted here need not be written back during the next window; the rest is written now.
            shutil.rmtree(directory, ignore_errors=True)
            os.sync()
        document["runs"].append({**what, "result": result})
        print(f"{time.monotonic() - started:5.0f} s  round {what['round']}  {what['kind']:3} rows  {what['clients']:3} clients  "
              f"{what['system']:20} {result['rows_per_second']:10.1f} rows/s  {result['rows_per_entry']:7.1f} rows/entry  "
              f"p50 {result['p50_ms']:8.3f}  p99 {result['p99_ms']:8.3f} ms", flush=True)

    results = run.ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    path = results / f"{document['date']}-group-commit.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print_tables(document)
    print(f"\n{len(document['runs'])} windows, {len(document['void'])} void, {time.monotonic() - started:.0f} s; {path.relative_to(run.ROOT)}")
    if options.write_docs:
        report.write_section(run.ROOT / "docs/benchmarks.md", SECTION, section(document))
    return 1 if document["void"] else 0


if __name__ == "__main__":
    sys.exit(main())
