"""The power goes while clients write: only what was synced is left. Nothing acknowledged may be missing.

The first tests show that the layer which plays the power cut loses what it must and keeps what it must.
"""

import random
import shutil
import subprocess
import sys
import threading
import time

import counts
import pytest
from test_kill9 import Stores

from harness.checker import Violation
from harness.load import Writer, append, join
from harness.power_cut import PowerCut
from harness.server import Server

ROUNDS_OF_A_STORE = 4
WRITERS = 6

TOY = """
import os, sys
root = sys.argv[1]

def write(name, data, sync):
    fd = os.open(f"{root}/{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, data)
    if sync:
        os.fsync(fd)
    os.close(fd)

def sync(name="."):
    fd = os.open(f"{root}/{name}" if name != "." else root, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)

"""


@pytest.fixture
def toy(memory_path):
    """Runs a toy program over a directory that holds the durable file `old`, cuts the power, answers what is left."""

    def run(program: str, chance: random.Random | None = None) -> dict[str, bytes]:
        layer = PowerCut(memory_path / "toy")
        shutil.rmtree(layer.root, ignore_errors=True)
        layer.root.mkdir(exist_ok=True)
        (layer.root / "old").write_bytes(b"old")
        layer.begin()
        # The program ends without any cleaning up, as a killed one does.
        done = subprocess.run([sys.executable, "-S", "-c", TOY + program + "\nos._exit(0)", str(layer.root)], env={**layer.env},
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        layer.cut(chance)
        return {str(path.relative_to(layer.root)): path.read_bytes() for path in sorted(layer.root.rglob("*")) if path.is_file()}

    return run


OLD = {"old": b"old"}


@pytest.mark.parametrize("program, left", [
    ("write('new', b'data', False)", OLD),
    ("write('new', b'data', True)", OLD),
    ("write('new', b'data', False); sync()", {**OLD, "new": b""}),
    ("write('new', b'data', True); sync()", {**OLD, "new": b"data"}),
    ("sync(); write('new', b'data', True)", OLD),
    ("write('new', b'12', True); sync(); write('new', b'34', False)", {**OLD, "new": b"12"}),
    ("write('new', b'12', True); sync(); write('new', b'34', True)", {**OLD, "new": b"1234"}),
    ("write('old', b'+', False)", OLD),
    ("os.mkdir(root + '/d'); write('d/new', b'data', True); sync('d')", OLD),
    ("os.mkdir(root + '/d'); sync(); write('d/new', b'data', True); sync('d')", {**OLD, "d/new": b"data"}),
    ("os.mkdir(root + '/d'); write('d/new', b'data', True); sync('d'); sync()", {**OLD, "d/new": b"data"}),
    ("os.unlink(root + '/old')", OLD),
    ("os.unlink(root + '/old'); sync()", {}),
    ("write('new', b'new', True); os.rename(root + '/new', root + '/old')", OLD),
    ("write('new', b'new', True); os.rename(root + '/new', root + '/old'); sync()", {"old": b"new"}),
    ("write('new', b'new', False); os.rename(root + '/new', root + '/old'); sync()", {"old": b""}),
    ("os.link(root + '/old', root + '/second')", OLD),
    ("os.link(root + '/old', root + '/second'); sync(); os.unlink(root + '/old'); sync()", {"second": b"old"}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_layer_keeps_what_was_synced_and_loses_the_rest(toy, program, left):
    assert toy(program) == left


def test_with_chance_any_prefix_survives_and_synced_bytes_always(toy, seed):
    chooser = random.Random(seed)
    found = {frozenset(toy("write('a', b'12', True); write('b', b'34', False)", chooser).items()) for _ in range(12)}
    names = {frozenset(name for name, _ in left) for left in found}
    assert names <= {frozenset({"old"}), frozenset({"old", "a"}), frozenset({"old", "a", "b"})}
    assert len(names) > 1, "chance always does the same"
    assert all(data == b"12" for left in found for name, data in left if name == "a")


def test_the_layer_refuses_what_it_cannot_express(memory_path):
    layer = PowerCut(memory_path / "toy")
    layer.begin()
    done = subprocess.run([sys.executable, "-S", "-c", TOY + "write('f', b'12', True)\nfd = os.open(root + '/f', os.O_RDWR)\nos.pwrite(fd, b'x', 0)",
                           str(layer.root)], env=layer.env, capture_output=True, text=True)
    assert done.returncode != 0 and "pwrite" in done.stderr


def test_a_server_that_does_not_sync_is_caught(memory_path):
    layer = PowerCut(memory_path / "data")
    server = Server(layer.root, env=layer.env, args=("--log-sync", "none"))
    stores = Stores("unsynced")
    plain = Server(layer.root).start()
    stores.renew(plain, 1)
    plain.stop()
    layer.begin()
    server.start()
    assert append(server.api(), stores.current[0], "client", [("row", 0)]).status == 201
    server.kill9()
    layer.cut()
    plain.start()
    with pytest.raises(Violation, match="C1"):
        stores.check(plain, stores.current)
    plain.kill9()


def test_what_was_acknowledged_survives_every_power_cut(memory_path, seed, injected):
    chooser = random.Random(seed)
    layer = PowerCut(memory_path / "data", slowest_sync_us=4000)
    server = Server(layer.root, env=layer.env)
    stores = Stores("cut")
    layer.begin()
    server.start()
    appends = 0
    for turn in range(counts.POWER_CUTS):
        if turn % ROUNDS_OF_A_STORE == 0:
            stores.renew(server, 2)
        barrier = threading.Barrier(WRITERS + 1)
        writers = [
            Writer(lambda: server.api(timeout=60), stores.current[number % 2], f"{turn}-{number}", chooser.randrange(2**32),
                   barrier=barrier, flush_share=0.3 if turn % 2 else 0.0)
            for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        barrier.wait()
        time.sleep(chooser.uniform(0.002, 0.15))
        server.kill9()
        appends += join(writers)
        # By turns: nothing that was not synced survives, or some of it.
        lost = layer.cut(chooser if turn % 2 else None)
        injected["power cut"] += 1
        injected["change of a name that was not synced when the power went"] += lost.names
        layer.begin()
        server.start()
        stores.check(server, stores.current)
    assert appends > counts.POWER_CUTS, f"only {appends} appends were answered in {counts.POWER_CUTS} rounds"
    assert injected["change of a name that was not synced when the power went"] > 0, "the power never went at a bad moment"
    print(f"{counts.POWER_CUTS} cuts, {appends} appends, {sum(len(h.ids_seen()) for h in stores.all)} rows")
    server.kill9()
    layer.cut()
    plain = Server(layer.root).start()
    stores.check(plain, stores.all)
    plain.stop()
