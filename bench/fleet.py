#!/usr/bin/env python3
"""A fleet of stores on one server: what creating, holding, restarting, first touches, a crash and idling cost.

The sections run in order over one data directory, each with a server process of its own. Prints a table and writes
bench/results/DATE-fleet.json. Exits with 1 when a section was void: a wrong answer, a row that is missing, a server that did not end well.
"""

import argparse
import datetime
import functools
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import time
from typing import Callable, NamedTuple

import lance

import fleet_load
import fleet_server
import machine
import report
import run

# How often a server is asked whether it is done, where the time until then is the figure.
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 300
STARTS = 3
# The dirty set forgets a mark on disk some seconds after it did so in memory: idling begins when nothing was done for longer.
QUIET_SECONDS = 15
# Of the dirty stores, read with pylance too.
SAMPLE = 50
HEAD = ("", "target", "measured", "met", "the original, embedded")
SMALL = {"stores": 2000, "capacity": 100, "cold": 400, "dirty": 100, "idle_seconds": 15.0, "flush_interval": 5, "original_stores": 200}
FULL = {"stores": 100_000, "capacity": 2000, "cold": 20_000, "dirty": 1000, "idle_seconds": 60.0, "flush_interval": 30,
        "original_stores": 1000}


class Fleet(NamedTuple):
    options: argparse.Namespace
    directory: pathlib.Path
    names: list[str]

    def server(self, *arguments: str) -> fleet_server.Server:
        """Not started yet."""
        return fleet_server.Server(self.directory, "--rollout-cache-capacity", str(self.options.capacity),
                                   "--rollout-flush-interval-secs", str(self.options.flush_interval), *arguments)

    def other_server(self) -> fleet_server.Server:
        return self.server("--instance-id", "fleet-other")

    def each(self, server: fleet_server.Server, names: list[str], do: Callable) -> tuple[float, list[float]]:
        return fleet_load.parallel(self.options.clients, names, functools.partial(fleet_server.Client, server.port), do)

    def append_to(self, server: fleet_server.Server, names: list[str], row: str) -> tuple[float, list[float]]:
        """A row of this id to each."""
        return self.each(server, names, lambda client, name: client.append(name, {"id": row, "rollout_id": "r", "content": "x"}))

    def missing(self, server: fleet_server.Server, names: list[str], row: str) -> list[str]:
        """The stores of which this server does not list the row."""
        absent: list[str] = []

        def look(client: fleet_server.Client, name: str) -> None:
            if row not in client.ids(name):
                absent.append(name)

        self.each(server, names, look)
        return absent

    def path(self, name: str) -> pathlib.Path:
        return self.directory / "data" / f"{name}.rollout.lance"


def create(fleet: Fleet) -> dict:
    with fleet.server() as server:
        seconds, each = fleet.each(server, fleet.names, lambda client, name: client.create(name))
        listed = list(server.stores())
        if sorted(listed) != fleet.names:
            raise run.Void(f"{len(fleet.names)} stores were created, {len(listed)} are listed ({len(set(listed))} names)")
        resources = server.resources()
        stop_seconds = server.stop()
    return {"seconds": round(seconds, 3), **fleet_load.first_and_last(each), "resources_after": resources, "stop_seconds": round(stop_seconds, 3)}


def resident(fleet: Fleet) -> dict:
    names = fleet.names[:fleet.options.capacity]
    with fleet.server() as server:
        looks = {"fresh": server.resources()}
        fleet.append_to(server, names, "resident")
        written, looks["written"] = server.status(), server.resources()

        def flush_and_list(client: fleet_server.Client, name: str) -> None:
            client.flush(name)
            client.ids(name)

        fleet.each(server, names, flush_and_list)
        status, looks["read"] = server.status(), server.resources()
        stop_seconds = server.stop()
    # The larger ones of the two looks.
    return {**{field: max(looks[look][field] for look in ("written", "read")) for field in looks["read"]}, "looks": looks,
            "open": min(written["resident"], status["resident"]), "status": status, "stop_seconds": round(stop_seconds, 3)}


def start(fleet: Fleet) -> dict:
    seconds = []
    for _ in range(STARTS):
        with fleet.server() as server:
            seconds.append(round(server.start_seconds, 4))
            status = server.status()
            server.stop()
    return {"seconds": seconds, "dirty": status["dirty"], "stores": status["stores"]}


def cold_writes(fleet: Fleet) -> dict:
    names = random.Random(1).sample(fleet.names, fleet.options.cold)
    with fleet.server() as server, fleet.other_server() as other:
        seconds, each = fleet.append_to(server, names, "cold")
        acknowledged = time.monotonic()
        status = server.status()
        # The bound is the interval: nothing is asked before it is over. The youngest rows are the ones that may be late.
        time.sleep(fleet.options.flush_interval)
        absent = fleet.missing(other, names[::-1], "cold")
        looked = time.monotonic() - acknowledged - fleet.options.flush_interval
        late = 0.0
        while still := fleet.missing(other, absent, "cold"):
            late = time.monotonic() - acknowledged - fleet.options.flush_interval
            if late > PATIENCE_SECONDS:
                raise run.Void(f"{len(still)} rows are not visible to another server {late:.0f} s after the interval: {still[:3]}")
            time.sleep(POLL_SECONDS)
        after = server.status()
        other.stop()
        server.stop()
    return {"seconds": round(seconds, 3), **fleet_load.quantiles(each), "status": status, "status_after": after,
            "missing_after_interval": len(absent), "late_seconds": round(late, 2), "look_seconds": round(looked, 2)}


def kill9(fleet: Fleet) -> dict:
    names = random.Random(2).sample(fleet.names, fleet.options.dirty)
    with fleet.server() as server:
        fleet.append_to(server, names, "kill9")
        before = server.status()
        server.kill9()
        server.start()
        began = time.monotonic()
        at_start = server.status()
        while not swept(status := server.status()):
            if time.monotonic() - began > fleet.options.flush_interval + PATIENCE_SECONDS:
                raise run.Void(f"not flushed after {time.monotonic() - began:.0f} s: {status}")
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        sample = names[:SAMPLE]
        without = [name for name in sample if not in_generation(fleet.path(name), "kill9")]
        if without:
            raise run.Void(f"{len(without)} of {len(sample)} stores have their row in no generation: {without[:3]}")
        with fleet.other_server() as other:
            absent = fleet.missing(other, names, "kill9")
            other.stop()
        if absent:
            raise run.Void(f"{len(absent)} rows are not visible to another server: {absent[:3]}")
        server.stop()
    return {"seconds": round(seconds, 3), "dirty_before": before["dirty"], "dirty_at_start": at_start["dirty"], "status": status,
            "start_seconds": round(server.start_seconds, 3)}


def swept(status: dict) -> bool:
    # What the sweeper opens at this moment is not counted among the dirty ones.
    return status["dirty"] == 0 and status["sweeper"]["running"] == 0


def in_generation(store: pathlib.Path, row: str) -> bool:
    return any(row in lance.dataset(str(path)).to_table(columns=["id"])["id"].to_pylist() for path in store.glob("_mem_wal/*/*_gen_*"))


def idle(fleet: Fleet) -> dict:
    names = random.Random(3).sample(fleet.names, fleet.options.dirty)
    with fleet.server() as server:
        # Not a server that has never done anything: stores are open, writers claimed, timers were armed.
        fleet.append_to(server, names, "idle")
        before = quiet(server)
        resources = server.resources()
        passes = server.status()["sweeper"]["passes"]
        time.sleep(fleet.options.idle_seconds)
        after = server.operations()
        status = server.status()
        if status["sweeper"]["passes"] <= passes:
            raise run.Void("the sweeper does not run")
        server.stop()
    changed = {series: count - before.get(series, 0) for series, count in after.items() if count != before.get(series, 0)}
    return {"operations": sum(changed.values()), "changed": changed, "seconds": fleet.options.idle_seconds, "status": status, "resources": resources}


def quiet(server: fleet_server.Server) -> dict[str, float]:
    """Waits until nothing was done for a while; the counters then."""
    began = since = time.monotonic()
    counters = server.operations()
    while time.monotonic() - since < QUIET_SECONDS or server.status()["oldest_unflushed_seconds"] is not None:
        if time.monotonic() - began > PATIENCE_SECONDS:
            break  # it never is: the figure will say so
        time.sleep(1)
        now = server.operations()
        if now != counters:
            counters, since = now, time.monotonic()
    return counters


def original(fleet: Fleet) -> dict:
    program = run.ROOT / "bench/fleet_original.py"
    return run.measure([sys.executable, str(program), "--stores", str(fleet.options.original_stores), "--clients", str(fleet.options.clients),
                        "--directory", str(fleet.directory / "original")])


SECTIONS = {"create": create, "resident": resident, "start": start, "cold-writes": cold_writes, "kill9": kill9, "idle": idle, "original": original}


# --- The table

def megabytes(count: float) -> str:
    return f"{count / 1e6:.0f} MB"


def verdict(met: bool, options: argparse.Namespace) -> str:
    """The targets are those of the full size."""
    return ("yes" if met else "no") if all(getattr(options, name) == FULL[name] for name in FULL if name != "original_stores") else "not judged"


def lines(document: dict, options: argparse.Namespace) -> list[tuple[str, ...]]:
    made = []
    results, theirs = document["results"], document["results"].get("original")
    count, capacity = f"{options.stores:,}", f"{options.capacity:,}"
    ours = ""  # of the original, where it has nothing to show
    if (one := results.get("create")) is not None:
        if theirs:
            creation, stores = theirs["create"], theirs["stores"]
            ours = (f"{stores:,} stores in {creation['seconds']:.2f} s, which is {creation['seconds'] * options.stores / stores:.0f} s scaled to "
                    f"{count}; p99 {creation['all']['p99_ms']:.1f} ms")
        made.append((f"create {count} stores over HTTP, {options.clients} clients", "at most 300 s; p99 of the last thousand at most 2x of the first",
                     f"{one['seconds']:.1f} s; p50 / p99 of the first {one['edge']:,} {spread(one['first'])}, of the last {spread(one['last'])}: "
                     f"{one['p99_ratio']:.2f}x", verdict(one["seconds"] <= 300 and one["p99_ratio"] <= 2, options), ours or "–"))
    if (one := results.get("resident")) is not None:
        ours = ""
        if theirs:
            writing, stores = theirs["cold-writes"], theirs["cold-writes"]["open"]
            scale = options.capacity / stores
            ours = (f"{stores:,} open: +{megabytes(writing['rss_rise'])}, {writing['threads']:,} threads, +{writing['descriptors_rise']:,} descriptors; "
                    f"memory and descriptors scaled to {capacity} open: +{megabytes(writing['rss_rise'] * scale)}, +{writing['descriptors_rise'] * scale:,.0f}")
        made.append((f"resident with {count} stores, cache {capacity}, {capacity} of them written, flushed and read",
                     "at most 600 MB, 40 threads, 1,000 descriptors",
                     f"{megabytes(one['rss'])} (peak {megabytes(one['rss_peak'])}), {one['threads']} threads, {one['descriptors']} descriptors, "
                     f"{one['open']:,} open", verdict(one["rss"] <= 600e6 and one["threads"] <= 40 and one["descriptors"] <= 1000, options),
                     ours or "–"))
    if (one := results.get("start")) is not None:
        made.append((f"start with {count} clean stores", "serving in at most 2 s",
                     f"{report.spread(one['seconds'])} s", verdict(max(one["seconds"]) <= 2, options), "–"))
    if (one := results.get("cold-writes")) is not None:
        ours = ""
        if theirs:
            ours = f"open and add, {theirs['stores']:,} stores: p50 / p99 {spread(theirs['cold-writes']['all'])} ms, without a sync and visible to nobody else"
        visible = (f"all visible {options.flush_interval} s after the last" if one["missing_after_interval"] == 0 else
                   f"{one['missing_after_interval']:,} not visible {options.flush_interval} s after the last, {one['late_seconds']:.1f} s late")
        made.append((f"1 row to each of {options.cold:,} cold stores, cache {capacity}, {options.clients} clients",
                     "p99 at most 100 ms; every row visible to a second server within the interval",
                     f"p50 / p99 {spread(one)} ms, {options.cold / one['seconds']:.0f} rows/s; {visible}",
                     verdict(one["p99_ms"] <= 100 and one["missing_after_interval"] == 0, options), ours or "–"))
    if (one := results.get("kill9")) is not None:
        bound = options.flush_interval + 10
        made.append((f"{options.dirty:,} dirty stores after kill -9, no request", f"all flushed within {bound} s (interval + 10 s)",
                     f"{one['seconds']:.1f} s", verdict(one["seconds"] <= bound, options), "–"))
    if (one := results.get("idle")) is not None:
        made.append((f"idle for {one['seconds']:g} s with {count} stores", "0 storage operations", f"{one['operations']:g}",
                     verdict(one["operations"] == 0, options), "–"))
    return made


def spread(times: dict[str, float]) -> str:
    return f"{report.number(times['p50_ms'])} / {report.number(times['p99_ms'])}"


# --- The run

def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), help="default: all; those that need stores make them without measuring")
    parser.add_argument("--small", action="store_true", help="sizes for a look, which the targets are not for")
    for name, kind, what in (("stores", int, "how many there are"), ("capacity", int, "of the cache: open stores at most"),
                             ("cold", int, "stores of cold-writes"), ("dirty", int, "stores of kill9 and idle"),
                             ("flush_interval", int, "seconds"), ("idle_seconds", float, "length of the idle time"),
                             ("original_stores", int, "stores of the original; its figures are scaled")):
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=f"{what} (default {FULL[name]}, with --small {SMALL[name]})")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--scratch", default=str(run.ROOT / "build/bench-data"), help="where the data directory is made and removed")
    options = parser.parse_args()
    for name, value in (SMALL if options.small else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if max(options.cold, options.dirty, options.capacity) > options.stores:
        parser.error("--cold, --dirty and --capacity are at most --stores")
    return options


def run_sections(fleet: Fleet, document: dict) -> None:
    wanted = fleet.options.only or list(SECTIONS)
    began = time.monotonic()
    there = False
    for name, section in SECTIONS.items():
        if name not in wanted and (name != "create" or set(wanted) <= {"original"}):
            continue
        if not there and name not in ("create", "original"):
            document["void"].append({"section": name, "reason": "the stores could not be created"})
            continue
        try:
            result = section(fleet)
        except run.Void as error:
            document["void"].append({"section": name, "reason": str(error)})
            print(f"VOID {name}: {error}", file=sys.stderr)
            continue
        there = there or name == "create"
        if name in wanted:
            document["results"][name] = result
        print(f"{time.monotonic() - began:5.0f} s  {name:12} {json.dumps(result)[:300]}", flush=True)


def main() -> int:
    options = parse_arguments()
    if not os.access(run.SERVER, os.X_OK):
        print(f"no program at {run.SERVER}: run `make bench-fleet`", file=sys.stderr)
        return 2
    scratch = pathlib.Path(options.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    directory = scratch / f"{os.getpid()}-fleet"
    directory.mkdir()
    fleet = Fleet(options, directory, [f"experiment-{number:06d}" for number in range(options.stores)])
    document = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%MZ"),
                "machine": machine.facts(run.ROOT, scratch),
                "settings": {"command": shlex.join(["bench/fleet.py", *sys.argv[1:]]),
                             **{name: getattr(options, name) for name in (*FULL, "clients")}},
                "results": {}, "void": []}
    try:
        run_sections(fleet, document)
        if document["void"] and (log := directory / "server.log").exists():
            print(f"the end of the server's log:\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        results = run.ROOT / "bench/results"
        results.mkdir(exist_ok=True)
        path = results / f"{document['date']}-fleet.json"
        path.write_text(json.dumps(document, indent=1) + "\n")
        print("\n" + report.markdown_table(lines(document, options), HEAD))
        for void in document["void"]:
            print(f"\nvoid: {void['section']}: {void['reason']}")
        print(f"\n{path.relative_to(run.ROOT)}", flush=True)
    finally:
        # A million files: minutes, which need not be Python's.
        subprocess.run(["rm", "-rf", "--", str(directory)], check=False)
    return 1 if document["void"] else 0


if __name__ == "__main__":
    sys.exit(main())
