#!/usr/bin/env python3
"""The original embedded store, lance_context.RolloutStore, with many stores in one process: create, one row each, memory.

It is no server: no HTTP, no registry, no cache. A store has no close, so each phase is a process of its own, and its handles stay
open until the phase ends. Prints one JSON object.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from lance_context import RolloutStore

import fleet_load
import fleet_server


def phase(options: argparse.Namespace, directory: pathlib.Path) -> dict:
    names = [str(directory / f"{number:06d}.rollout.lance") for number in range(options.stores)]
    before = fleet_server.resources("self")
    opened = []
    row = {"id": "row", "rollout_id": "r", "content": "x"}

    def create(_, uri: str) -> None:
        opened.append(RolloutStore.open(uri))

    def write(_, uri: str) -> None:
        store = RolloutStore.open(uri)
        store.add([row])
        opened.append(store)

    seconds, each = fleet_load.parallel(options.clients, names, contextlib.ExitStack, create if options.phase == "create" else write)
    after = fleet_server.resources("self")
    return {"seconds": round(seconds, 3), **fleet_load.first_and_last(each), "open": len(opened),
            "rss_rise": after["rss"] - before["rss"], "descriptors_rise": after["descriptors"] - before["descriptors"],
            "threads": after["threads"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, default=500)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--directory", help="an empty directory for the stores (default: a temporary one)")
    parser.add_argument("--phase", choices=("create", "cold-writes"), help="one phase over a directory that is kept")
    options = parser.parse_args()
    directory = pathlib.Path(options.directory or tempfile.mkdtemp(prefix="fleet-original-"))
    if options.phase:
        print(json.dumps(phase(options, directory)))
        return 0
    directory.mkdir(parents=True, exist_ok=True)
    try:
        phases = {}
        for name in ("create", "cold-writes"):
            done = subprocess.run([sys.executable, __file__, "--stores", str(options.stores), "--clients", str(options.clients),
                                   "--directory", str(directory), "--phase", name], check=True, stdout=subprocess.PIPE, text=True)
            phases[name] = json.loads(done.stdout)
        print(json.dumps({"stores": options.stores, "clients": options.clients, **phases}))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
