"""A disk that fails: calls that return an error once, a few times or for good, and a file system that is really full.

Whatever happens: the server lives, an answer is in the one error form, nothing acknowledged is lost, nothing refused appears,
the other stores go on, and a restart heals what only a restart may heal.
"""

import concurrent.futures
import errno
import os
import subprocess
import threading
import time

import pytest

from harness import lance_files
from harness.checker import History
from harness.faults import Faults
from harness.http_api import Answer, Api, assert_envelope
from harness.load import Writer, append, check, code_of, join
from harness.server import Server

ANSWER_SECONDS = 30
WAL = "hurt.rollout.lance/_mem_wal/"
LOG = "/wal"


class World:
    """A server whose disk can fail; the store `hurt` meets the faults, the store `well` must not notice."""

    def __init__(self, folder, injected):
        self.faults = Faults(folder)
        self.server = Server(folder / "data", env=self.faults.env).start()
        self.injected = injected
        self.api = self.server.api(timeout=ANSWER_SECONDS)
        self.hurt, self.well = History("hurt"), History("well")
        self._rows = 0
        for history in (self.hurt, self.well):
            self.api.create(history.store).expect(201)
            # A generation, and rows that are only in the log.
            self.write(history, flush=True).expect(201)
            self.write(history).expect(201)

    def write(self, history: History, **options) -> Answer:
        self._rows += 1
        answer = append(self.api, history, "client", [(f"row-{self._rows}", 0), (f"row-{self._rows}+", 0)], **options)
        assert answer is not None, f"the connection broke:\n{self.server.log_tail()}"
        return answer

    def count(self, kind: str, rule) -> None:
        assert rule.disarm() > 0, f"no call met the fault: {kind}"
        self.injected[kind] += rule.injected

    def well_goes_on(self) -> None:
        self.write(self.well).expect(201)
        self.write(self.well, flush=True).expect(201)
        check(self.api, self.well)

    def restart(self) -> None:
        """A kill, not a stop: what the faults have left is what recovery gets."""
        self.server.kill9()
        self.api.close()
        self.server.start()

    def healed(self) -> None:
        """After a restart everything is as the clients know it, and writes and flushes work."""
        self.restart()
        for history in (self.hurt, self.well):
            check(self.api, history)
            self.write(history, flush=True).expect(201)
            self.write(history).expect(201)
            check(self.api, history)
        self.server.stop()
        self.api.close()
        self.server.start()
        for history in (self.hurt, self.well):
            check(self.api, history)
        self.server.kill9()


@pytest.fixture
def world(memory_path, injected):
    made = World(memory_path, injected)
    yield made
    made.server.discard()


# What the log writer meets: operation, path, error, how often, and what the append that met it may answer.
HEALS = {
    "no descriptor for a new log file, once": ("open", LOG, errno.EMFILE, 1, {"ok"}),
    "no descriptor for a new log file, three times": ("open", LOG, errno.EMFILE, 3, {"ok"}),
    "quota used up when the log is written": ("write", LOG, errno.EDQUOT, 1, {"NO_SPACE"}),
    "disk full when the log is written": ("write", LOG, errno.ENOSPC, 1, {"NO_SPACE"}),
    "disk full when the log file gets its name": ("link", LOG, errno.ENOSPC, 1, {"NO_SPACE"}),
    "disk full when the log is synced": ("fdatasync", LOG, errno.ENOSPC, 1, {"NO_SPACE", "WRITER_FAILED"}),
}


@pytest.mark.parametrize("case", HEALS)
def test_an_append_that_meets_a_passing_fault(world, case):
    operation, path, error, times, outcomes = HEALS[case]
    rule = world.faults.arm(operation, path, error, times=times)
    answer = world.write(world.hurt)
    outcome = "ok" if answer.status == 201 else code_of(answer)
    assert outcome in outcomes, f"{answer.status}: {answer.body[:500]!r}"
    world.count(case, rule)
    if outcome != "WRITER_FAILED":
        world.write(world.hurt).expect(201)
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


POISONS = {
    "write of the log fails": ("write", LOG, errno.EIO, 1),
    "sync of the log fails once": ("fdatasync", LOG, errno.EIO, 1),
    "sync of the log fails for a while": ("fdatasync", LOG, errno.EIO, 5),
    "sync of the log's directory fails once": ("fsync", LOG, errno.EIO, 1),
    "sync of the log's directory fails for a while": ("fsync", LOG, errno.EIO, 50),
    "the file system turns read-only": ("open", LOG, errno.EROFS, 1),
    "no descriptor for a new log file, for good": ("open", LOG, errno.EMFILE, -1),
}


@pytest.mark.parametrize("case", POISONS)
def test_a_log_writer_that_lost_its_disk_acknowledges_nothing_until_a_restart(world, case):
    operation, path, error, times = POISONS[case]
    rule = world.faults.arm(operation, path, error, times=times)
    answer = world.write(world.hurt)
    assert answer.status != 201, "a row was acknowledged over a sync that failed"
    assert_envelope(answer, 500, 503)
    assert code_of(answer) in ("WRITER_FAILED", "OUTCOME_UNKNOWN"), answer.body
    world.count(case, rule)
    # The disk is well again. That proves nothing about what was lost.
    for _ in range(3):
        refused = world.write(world.hurt)
        assert_envelope(refused, 503)
        assert code_of(refused) == "WRITER_FAILED", refused.body
        assert "retry-after" not in refused.headers
    assert_envelope(world.api.flush("hurt"), 503)
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


def test_rows_that_wait_behind_a_failed_sync_all_get_an_answer_and_none_is_acknowledged(world):
    rule = world.faults.arm("fdatasync", LOG, errno.EIO, times=1)
    refusals: list[Answer] = []
    writers = [Writer(lambda: world.server.api(timeout=ANSWER_SECONDS), world.hurt, f"w{number}", number, limit=10,
                      on_error=lambda answer: refusals.append(answer) is None) for number in range(6)]
    for writer in writers:
        writer.start()
    assert join(writers) == 0
    assert {code_of(answer) for answer in refusals} == {"WRITER_FAILED"} and len(refusals) == 60
    world.count("sync of the log fails once under load", rule)
    check(world.api, world.hurt)
    world.healed()


def test_a_fault_after_the_entry_landed_is_never_an_acknowledgement(world):
    """The owner is looked up between the sync and the answer; when that fails, nobody knows."""
    rule = world.faults.arm("stat", WAL, errno.EIO, times=1)
    answer = world.write(world.hurt)
    world.count("lookup of the owner fails", rule)
    if answer.status != 201:
        assert_envelope(answer, 500, 503)
        refused = world.write(world.hurt)
        assert_envelope(refused, 500, 503)
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


FLUSH_RETRIED = {
    "disk full when a generation is written": ("write", "_gen_", errno.ENOSPC, 3),
    "quota used up when a generation gets its name": ("link", "_gen_", errno.EDQUOT, 2),
    "disk full when a directory is made": ("mkdir", "_gen_", errno.ENOSPC, 2),
    "no descriptor for a generation": ("open", "_gen_", errno.EMFILE, 3),
    "disk full when the shard manifest is written": ("write", "/manifest", errno.ENOSPC, 1),
    "no descriptor for the shard manifest": ("open", "/manifest", errno.EMFILE, 1),
}


@pytest.mark.parametrize("case", FLUSH_RETRIED)
def test_a_flush_that_meets_a_passing_fault_is_retried_until_it_is_done(world, case):
    operation, path, error, times = FLUSH_RETRIED[case]
    before = len(lance_files.generation_paths(world.server.data_dir / "hurt.rollout.lance"))
    rule = world.faults.arm(operation, path, error, times=times)
    world.api.flush("hurt").expect(200)
    world.count(case, rule)
    assert len(lance_files.generation_paths(world.server.data_dir / "hurt.rollout.lance")) == before + 1
    world.write(world.hurt).expect(201)
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


FLUSH_FAILS = {
    "write of a generation fails": ("write", "_gen_", errno.EIO, 1),
    "sync of a generation fails once": ("fdatasync", "_gen_", errno.EIO, 1),
    "sync of the shard manifest fails once": ("fdatasync", "/manifest", errno.EIO, 1),
}


@pytest.mark.parametrize("case", FLUSH_FAILS)
def test_a_flush_that_cannot_heal_fails_its_store_and_loses_nothing(world, case):
    operation, path, error, times = FLUSH_FAILS[case]
    rule = world.faults.arm(operation, path, error, times=times)
    answer = world.api.flush("hurt")
    assert_envelope(answer, 500, 503)
    world.count(case, rule)
    refused = world.write(world.hurt)
    assert_envelope(refused, 503)
    assert code_of(refused) == "WRITER_FAILED"
    # Reads go on, with every row.
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


@pytest.mark.parametrize("place", ["_gen_", "/manifest"])
def test_a_directory_sync_that_fails_under_a_flush_loses_nothing(world, place):
    rule = world.faults.arm("fsync", place, errno.EIO, times=1)
    answer = world.api.flush("hurt")
    world.count(f"sync of a directory ({place}) fails under a flush", rule)
    if answer.status != 200:
        assert_envelope(answer, 500, 503)
    check(world.api, world.hurt)
    world.well_goes_on()
    world.healed()


READS = {
    "list of the shards fails": ("opendir", "hurt.rollout.lance/_mem_wal", errno.EIO),
    "open of a generation fails": ("open", "_gen_", errno.EIO),
    "no descriptor to open a generation": ("open", "_gen_", errno.EMFILE),
    "read of a generation fails": ("pread", "_gen_", errno.EIO),
    "read of the base table's manifest fails": ("pread", "hurt.rollout.lance/_versions", errno.EIO),
    "read of a log entry fails": ("pread", "hurt.rollout.lance/_mem_wal/02e81b29-f150-54b9-9a08-ce75944f6889/wal", errno.EIO),
    "list of the log fails": ("opendir", LOG, errno.EIO),
}


@pytest.mark.parametrize("case", READS)
def test_a_read_error_is_an_error_and_never_a_shorter_list(world, case):
    """Met by a process that has nothing in memory; after the fault has passed the same process answers in full."""
    operation, path, error = READS[case]
    world.restart()
    rule = world.faults.arm(operation, path, error, times=1)
    answer = world.api.list_answer("hurt")
    if answer.status == 200:
        check(world.api, world.hurt)
    else:
        assert_envelope(answer, 500, 503)
    world.write(world.hurt)
    world.count(case, rule)
    world.well_goes_on()
    check(world.api, world.hurt)
    world.write(world.hurt).expect(201)
    world.healed()


CREATES = {
    "write of the base table fails": ("write", "new.rollout.lance", errno.EIO),
    "disk full when the base table is made": ("mkdir", "new.rollout.lance", errno.ENOSPC),
    "sync of the base table's manifest fails": ("fdatasync", "new.rollout.lance/_versions", errno.EIO),
    "sync of the base table's directory fails": ("fsync", "new.rollout.lance/_versions", errno.EIO),
    "disk full when the registry is written": ("write", "registry", errno.ENOSPC),
    "sync of the registry fails": ("fdatasync", "registry", errno.EIO),
}


@pytest.mark.parametrize("case", CREATES)
def test_a_create_that_failed_can_be_repeated(world, case):
    operation, path, error = CREATES[case]
    rule = world.faults.arm(operation, path, error, times=1)
    first = world.api.create("new")
    world.count(case, rule)
    if first.status != 201:
        assert_envelope(first, 500, 503, 507)
        if operation == "fsync":
            # A directory whose sync failed is not used again by this process: the kernel reports a lost page once.
            assert_envelope(world.api.create("new"), 500, 503)
            world.restart()
        world.api.create("new").expect(201, 409)
    history = History("new")
    append(world.api, history, "client", [("row", 0)], flush=True).expect(201)
    append(world.api, history, "client", [("log", 0)]).expect(201)
    check(world.api, history)
    world.well_goes_on()
    world.restart()
    check(world.api, history)
    names = [store["name"] for store in world.api.get("/api/v1/rollouts").expect(200).json()["stores"]]
    assert sorted(names) == ["hurt", "new", "well"]


STARTS = {
    "read of the registry fails": ("pread", "registry", errno.EIO),
    "list of the registry fails": ("opendir", "registry", errno.EIO),
    "open of the registry fails": ("open", "registry", errno.EACCES),
}


@pytest.mark.parametrize("case", STARTS)
def test_a_server_that_cannot_read_its_registry_does_not_start_empty(world, case):
    operation, path, error = STARTS[case]
    world.server.kill9()
    world.api.close()
    rule = world.faults.arm(operation, path, error, times=-1)
    world.server.launch()
    if world.server.answers_or_died():
        assert_envelope(world.api.list_answer("hurt"), 500, 503)
        world.server.kill9()
        world.api.close()
    else:
        assert "registry" in world.server.log_tail(5), world.server.log_tail(5)
    world.count(case, rule)
    world.server.start()
    for history in (world.hurt, world.well):
        check(world.api, history)


# ---- a file system that is really full

FULL_BYTES = 16 << 20


@pytest.fixture
def small_disk(tmp_path):
    """16 MiB of ext4 on a loop device; of memory where a loop device cannot be had."""
    image, mount = tmp_path / "disk.img", tmp_path / "disk"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(FULL_BYTES)
    made = subprocess.run(f"mkfs.ext4 -q -F {image} && mount -o loop {image} {mount}", shell=True, capture_output=True, text=True)
    kind = "ext4"
    if made.returncode != 0:
        memory = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", str(mount)], capture_output=True, text=True)
        assert memory.returncode == 0, f"no small file system: {made.stderr}{memory.stderr}"
        kind = "tmpfs"
    print(f"{kind} of {FULL_BYTES} bytes")
    yield mount
    for server in Server.all:
        if mount in server.data_dir.parents:
            server.discard()
    subprocess.run(["umount", str(mount)], check=True)


def rows_until_full(api: Api, history: History, label: str) -> list[Answer]:
    """Appends until ten appends in a row were refused."""
    refusals: list[Answer] = []
    number = in_a_row = 0
    while in_a_row < 10:
        number += 1
        answer = append(api, history, label, [(f"{label}-{number}-{i}", 0) for i in range(40)])
        assert answer is not None, "the connection broke"
        if answer.status == 201:
            in_a_row = 0
        else:
            in_a_row += 1
            refusals.append(answer)
    return refusals


def test_a_full_disk_refuses_writes_and_nothing_else(small_disk, injected):
    ballast = small_disk / "ballast"
    server = Server(small_disk / "data").start()
    api = server.api(timeout=ANSWER_SECONDS)
    histories = {name: History(name) for name in ("full", "other", "flushed")}
    for history in histories.values():
        api.create(history.store).expect(201)
        append(api, history, "early", [(f"early-{number}", 0) for number in range(20)]).expect(201)
    append(api, histories["other"], "early", [("early-flushed", 0)], flush=True).expect(201)
    # More than the rows that fit beside it will need a second time, as a generation.
    ballast.write_bytes(bytes(8 << 20))

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        filling = [pool.submit(rows_until_full, server.api(timeout=ANSWER_SECONDS), histories["full"], f"fill-{n}") for n in range(3)]
        refusals = [answer for filled in filling for answer in filled.result()]
    assert len(refusals) >= 30
    for answer in refusals:
        assert_envelope(answer, 507, 503, 500)
    assert {code_of(answer) for answer in refusals} <= {"NO_SPACE", "WRITER_FAILED"}, {code_of(answer) for answer in refusals}
    injected["append to a full file system"] += len(refusals)
    # What is left is less than a row with a payload needs.
    for _ in range(3):
        payload = os.urandom(2 << 20)
        answer = api.append_multipart("full", [{"id": "large", "rollout_id": "r"}], [(0, payload)])
        assert_envelope(answer, 507)
        injected["upload to a full file system"] += 1
    assert server.running
    for history in histories.values():
        check(api, history)

    # A flush has no room; it waits for some, and ends when there is.
    flushing = threading.Thread(target=lambda: flushed.append(server.api(timeout=120).flush("full")), daemon=True)
    flushed: list[Answer] = []
    before = lance_files.generation_paths(server.data_dir / "full.rollout.lance")
    flushing.start()
    deadline = time.monotonic() + ANSWER_SECONDS
    while b'"state":"retrying"' not in api.get("/readyz").body:
        assert time.monotonic() < deadline, "nothing says that the flush is retried"
        assert not flushed, f"the flush ended on a full disk: {flushed}"
        time.sleep(0.02)
    injected["flush on a full file system"] += 1
    for history in histories.values():
        check(api, history)
    ballast.unlink()
    flushing.join(60)
    assert flushed and flushed[0].status == 200, flushed
    assert len(lance_files.generation_paths(server.data_dir / "full.rollout.lance")) == len(before) + 1

    for history in histories.values():
        append(api, history, "late", [("late", 0)]).expect(201)
        append(api, history, "late", [("later", 0)], flush=True).expect(201)
        check(api, history)
    # Nothing half written: every log object can be read, and no temporary file is left.
    for history in histories.values():
        store = server.data_dir / f"{history.store}.rollout.lance"
        for shard in lance_files.shard_dirs(store):
            lance_files.log_entries(shard)
    assert not [path for path in server.data_dir.rglob(".tmp*")]
    server.kill9()
    api.close()
    server.start()
    for history in histories.values():
        check(api, history)
    server.stop()
