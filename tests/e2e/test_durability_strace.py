"""What the kernel was asked to make durable before each 201 left the process, seen by strace.

For everything that an answer stands on: the bytes are synced before they get their name, the name's directory is synced after
that, and so is the parent of every directory that was made; all before the answer is written to the socket.
"""

import re

import pytest

from harness import syscalls
from harness.syscalls import Call

LOG_OBJECT = re.compile(r"/_mem_wal/[0-9a-f-]{36}/wal/[01]{64}\.arrow$")
# Files whose loss loses no row: hints, and sidecars under their own folder.
ADVISORY = re.compile(r"hint|/_sarissa/")


class Trace:
    def __init__(self, calls: list[Call], root: str):
        self.calls = [call for call in calls if call.ok]
        self.root = root
        self.answers = [call for call in self.calls if call.name in ("sendmsg", "sendto", "write", "writev")
                        and '"HTTP/1.1 201' in call.arguments]

    def inside(self, path: str | None) -> bool:
        return path is not None and (path + "/").startswith(self.root + "/")

    def names_given(self, since: Call | None, until: Call) -> list[tuple[Call, str | None, str]]:
        """(call, path that the bytes had before, final path) of each link and rename between two answers."""
        found = []
        for call in self._between(since, until):
            if call.name in ("link", "linkat", "rename", "renameat", "renameat2"):
                source, target = self._source_and_target(call)
                if self.inside(target):
                    found.append((call, source, target))
        return found

    def directories_made(self, since: Call | None, until: Call) -> list[tuple[Call, str]]:
        return [(call, call.paths()[0]) for call in self._between(since, until)
                if call.name in ("mkdir", "mkdirat") and self.inside(call.paths()[0])]

    def syncs(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.name in ("fsync", "fdatasync") and call.fd_path == path]

    def directory_synced(self, path: str, after: Call, before: Call) -> bool:
        return any(after.before(sync) and sync.before(before) for sync in self.syncs(path) if sync.name == "fsync")

    def data_synced(self, source: str, named_by: Call) -> bool:
        """The bytes were synced after the last write to them and before they got their name."""
        writes = [call for call in self.calls if call.name in ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate")
                  and call.fd_path == source and call.start < named_by.start]
        return any(all(write.before(sync) for write in writes) and sync.before(named_by) for sync in self.syncs(source))

    def _between(self, since: Call | None, until: Call) -> list[Call]:
        return [call for call in self.calls if (since is None or call.start > since.start) and call.end < until.start]

    def _source_and_target(self, call: Call) -> tuple[str | None, str]:
        paths = call.paths()
        source = paths[0]
        descriptor = re.match(r"/proc/(?:self|\d+)/fd/(\d+)$", source)
        if descriptor:
            source = self._path_of(int(descriptor.group(1)), call)
        elif call.name.startswith("rename"):
            # An overwrite is linked under a temporary name first: the bytes are those of the file behind the link.
            linked = [earlier for earlier in self.calls if earlier.name in ("link", "linkat")
                      and earlier.end < call.start and earlier.paths()[-1] == source]
            if linked:
                source = self._source_and_target(linked[-1])[0]
        return source, paths[-1]

    def _path_of(self, descriptor: int, at: Call) -> str | None:
        opened = [call for call in self.calls if call.name in ("openat", "open", "creat") and call.result == descriptor
                  and call.end < at.start]
        return opened[-1].result_path if opened else None


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A create, the first append of the fresh store, and two later ones, traced; then a clean stop."""
    from harness.server import Server

    folder = tmp_path_factory.mktemp("strace")
    log = folder / "strace.txt"
    server = Server(folder / "data", wrapper=syscalls.command(log)).start()
    try:
        api = server.api()
        api.create("synced").expect(201)
        for turn in range(3):
            api.append("synced", [{"id": f"row-{turn}", "rollout_id": "r"}]).expect(201)
        server.stop()
    finally:
        server.discard()
    found = Trace(syscalls.read(log), str(server.data_dir.resolve()))
    assert len(found.answers) == 4, f"{len(found.answers)} answers with 201 in the trace"
    return found


APPENDS = {"first append": 1, "second append": 2, "third append": 3}


def span(trace: Trace, index: int) -> tuple[Call | None, Call]:
    return (trace.answers[index - 1] if index else None), trace.answers[index]


@pytest.mark.parametrize("index", APPENDS.values(), ids=APPENDS.keys())
def test_the_log_object_is_durable_before_the_answer(trace, index):
    since, answer = span(trace, index)
    objects = [entry for entry in trace.names_given(since, answer) if LOG_OBJECT.search(entry[2])]
    assert objects, "no log object got its name before the 201"
    for named, source, target in objects:
        assert trace.data_synced(source, named), f"{target}: named before its bytes were synced"
        folder = target.rsplit("/", 1)[0]
        assert trace.directory_synced(folder, named, answer), f"{target}: its directory was not synced before the 201"


EVERYTHING = {"create": 0, **APPENDS}


@pytest.mark.parametrize("index", EVERYTHING.values(), ids=EVERYTHING.keys())
def test_every_directory_made_is_durable_before_the_answer(trace, index):
    _, answer = span(trace, index)
    # From the very start: a directory that an earlier answer needed must be durable for the later ones too.
    made = trace.directories_made(None, answer)
    assert made, "no directory was made; the trace misses something"
    for call, path in made:
        if ADVISORY.search(path + "/"):
            continue
        parent = path.rsplit("/", 1)[0]
        assert trace.directory_synced(parent, call, answer), f"{path}: its parent was not synced before the 201"


@pytest.mark.parametrize("index", EVERYTHING.values(), ids=EVERYTHING.keys())
def test_every_file_that_got_its_name_is_durable_before_the_answer(trace, index):
    since, answer = span(trace, index)
    for named, source, target in trace.names_given(since, answer):
        if ADVISORY.search(target):
            continue
        assert trace.data_synced(source, named), f"{target}: named before its bytes were synced"
        assert trace.directory_synced(target.rsplit("/", 1)[0], named, answer), f"{target}: its directory was not synced before the 201"


@pytest.mark.parametrize("index", EVERYTHING.values(), ids=EVERYTHING.keys())
def test_every_file_made_in_place_is_durable_before_the_answer(trace, index):
    since, answer = span(trace, index)
    for call in trace._between(since, answer):
        if call.name not in ("openat", "open", "creat") or "O_CREAT" not in call.arguments or not trace.inside(call.result_path):
            continue
        path = call.result_path
        renamed = any(source == path for _, source, _ in trace.names_given(since, answer))
        if ADVISORY.search(path) or renamed or not path.startswith(trace.root + "/") or ".tmp" in path:
            continue
        syncs = [sync for sync in trace.syncs(path) if call.before(sync) and sync.before(answer)]
        assert syncs, f"{path}: its bytes were not synced before the 201"
        assert trace.directory_synced(path.rsplit("/", 1)[0], call, answer), f"{path}: its directory was not synced before the 201"
