#!/usr/bin/env python3
"""Appends to Sarissa and to the original embedded store, in turns, on this machine.

Each window starts from an empty directory. In a round every system gets one window for each workload and number of clients;
every second round goes through the systems in reverse, so that a drift of the machine hits all alike (ABBA). Prints a table, writes
bench/results/DATE.json, and with --write-docs docs/benchmarks.md. Exits with 1 when a run was void: rows lost, doubled or made up.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import time
from typing import Iterator, NamedTuple

import machine
import report

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVER = os.environ.get("SARISSA_BIN", str(ROOT / "build/release/sarissa"))
GENERATOR = os.environ.get("LOAD_GENERATOR_BIN", str(ROOT / "build/release/bench/load_generator"))
START_SECONDS = 30
STOP_SECONDS = 60
WINDOW_LIMIT_SECONDS = 300


class System(NamedTuple):
    name: str
    title: str
    durability: str
    stores: str
    server_arguments: tuple[str, ...] | None = None  # None: the original, which has no server
    peer_arguments: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("small", "tokens8k")
    least_clients: int = 1


SYSTEMS = [
    System("sarissa-sync", "Sarissa", "sync", "shared", ("--log-sync=always",)),
    System("sarissa-sync-stores", "Sarissa", "sync", "per-client", ("--log-sync=always",), least_clients=2),
    System("sarissa-os", "Sarissa", "os", "shared", ("--log-sync=none",)),
    System("original", "original, Python method", "os", "per-client"),
    System("original-preencoded", "original, pre-encoded", "os", "per-client", peer_arguments=("--preencoded",), kinds=("tokens8k",)),
]


class Void(Exception):
    """A window that yields no figure."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/api/v1/health")
            return connection.getresponse().status == 200
        except OSError:
            return False


@contextlib.contextmanager
def serving(directory: pathlib.Path, arguments: tuple[str, ...], prefix: list[str]) -> Iterator[int]:
    """A server over directory/data; yields its port and stops it cleanly."""
    port = free_port()
    log_path = directory / "server.log"
    command = [*prefix, SERVER, "serve", "--host", "127.0.0.1", "--port", str(port), "--data-dir", str(directory / "data"), *arguments]
    with open(log_path, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Void(f"the server did not come up: {log_path.read_text(errors='replace')[-2000:]}")
            time.sleep(0.01)
        yield port
        process.terminate()
        code = process.wait(STOP_SECONDS)
        if code != 0:
            raise Void(f"the server ended with {code}: {log_path.read_text(errors='replace')[-2000:]}")
    except subprocess.TimeoutExpired:
        raise Void(f"the server still ran {STOP_SECONDS} s after SIGTERM") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def measure(command: list[str]) -> dict:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WINDOW_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Void(f"no end after {WINDOW_LIMIT_SECONDS} s: {shlex.join(command)}") from None
    if done.stderr:
        print(done.stderr.rstrip(), file=sys.stderr)
    if done.returncode != 0:
        raise Void(f"exit code {done.returncode} of {shlex.join(command)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def run_window(system: System, kind: str, clients: int, options: argparse.Namespace, directory: pathlib.Path) -> dict:
    load = ["--clients", str(clients), "--kind", kind, "--seconds", str(options.seconds), "--warmup", str(options.warmup)]
    if system.server_arguments is None:
        return measure([sys.executable, str(ROOT / "bench/original_peer.py"), *load, "--directory", str(directory / "data"),
                        "--load-generator", GENERATOR, *system.peer_arguments])
    on_core = (lambda core: ["taskset", "-c", core]) if options.pin else (lambda core: [])
    with serving(directory, system.server_arguments, on_core("0")) as port:
        return measure([*on_core("1"), GENERATOR, "--port", str(port), *load, "--stores", system.stores])


def windows(options: argparse.Namespace) -> Iterator[tuple[int, str, int, int, System]]:
    chosen = [(order, system) for order, system in enumerate(SYSTEMS) if not options.systems or system.name in options.systems]
    for turn in range(options.rounds):
        for kind in options.kinds:
            for clients in options.clients:
                for order, system in reversed(chosen) if turn % 2 else chosen:
                    if kind in system.kinds and clients >= system.least_clients:
                        yield turn, kind, clients, order, system


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window")
    parser.add_argument("--warmup", type=float, default=0.4)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--kinds", nargs="+", choices=list(report.KINDS), default=list(report.KINDS))
    parser.add_argument("--systems", nargs="+", choices=[system.name for system in SYSTEMS], help="default: all")
    parser.add_argument("--pin", action="store_true", help="the server on core 0, its clients on core 1")
    parser.add_argument("--scratch", default=str(ROOT / "build/bench-data"), help="where the data directories are made and removed")
    parser.add_argument("--write-docs", action="store_true", help="rewrite docs/benchmarks.md")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    for binary in (SERVER, GENERATOR):
        if not os.access(binary, os.X_OK):
            print(f"no program at {binary}: run `make bench`", file=sys.stderr)
            return 2
    scratch = pathlib.Path(options.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    document = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%MZ"),
                "machine": machine.facts(ROOT, scratch),
                "settings": {"command": shlex.join(["bench/run.py", *sys.argv[1:]]), "rounds": options.rounds, "seconds": options.seconds,
                             "warmup": options.warmup, "pin": options.pin},
                "runs": [], "void": []}
    for turn, kind, clients, order, system in windows(options):
        what = {"round": turn, "kind": kind, "clients": clients, "order": order, "system": system.name, "title": system.title,
                "durability": system.durability, "stores": system.stores}
        directory = scratch / f"{os.getpid()}-{turn}-{kind}-{clients}-{system.name}"
        directory.mkdir()
        try:
            result = run_window(system, kind, clients, options, directory)
        except Void as error:
            document["void"].append({**what, "reason": str(error)})
            print(f"VOID round {turn} {kind} {clients} {system.name}: {error}", file=sys.stderr)
            continue
        finally:
            # What is deleted here need not be written back during the next window; the rest is written now.
            shutil.rmtree(directory, ignore_errors=True)
            os.sync()
        document["runs"].append({**what, "result": result})
        print(f"{time.monotonic() - started:5.0f} s  round {turn}  {kind:9} {clients:3} clients  {system.name:20} "
              f"{result['rows_per_second']:10.1f} rows/s  p50 {result['p50_ms']:8.3f}  p99 {result['p99_ms']:8.3f} ms", flush=True)

    results = ROOT / "bench/results"
    results.mkdir(exist_ok=True)
    path = results / f"{document['date']}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    report.print_tables(document)
    print(f"\n{len(document['runs'])} windows, {len(document['void'])} void, {time.monotonic() - started:.0f} s; {path.relative_to(ROOT)}")
    if options.write_docs:
        report.write_docs(ROOT / "docs/benchmarks.md", document)
    return 1 if document["void"] else 0


if __name__ == "__main__":
    sys.exit(main())
