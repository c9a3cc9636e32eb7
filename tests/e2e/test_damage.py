"""Files of a stopped store that were damaged: a flipped bit, a cut, nothing left, gone, or a stranger beside them.

A read gives the right rows, or an error that names the file. Never other rows, never a crash, and other stores do not notice.
"""

import pathlib
import random
import re
import shutil

import counts
import pytest

from harness.expected_rows import assert_rows
from harness.http_api import Api, assert_envelope
from harness.records import FULL, plain, with_payload
from harness.server import Server

GENERATION = r"_mem_wal/[^/]+/[0-9a-f]+_gen_\d+/"
# Every file of a store belongs to one class.
CLASSES = {
    "log entry": r"_mem_wal/[^/]+/wal/[01]{64}\.arrow",
    "shard manifest": r"_mem_wal/[^/]+/manifest/[01]{64}\.binpb",
    "hint of a shard manifest": r"_mem_wal/[^/]+/manifest/version_hint\.json",
    "base manifest": r"_versions/\d+\.manifest",
    "hint of a base manifest": r"_versions/latest_version_hint\.json",
    "transaction": r"_transactions/.*\.txn",
    "data of a generation": GENERATION + r"data/.*\.lance",
    "manifest of a generation": GENERATION + r"_versions/.*\.manifest",
    "hint of a generation's manifest": GENERATION + r"_versions/latest_version_hint\.json",
    "transaction of a generation": GENERATION + r"_transactions/.*\.txn",
    "deleted rows of a generation": GENERATION + r"_deletions/.*",
    "key index data": GENERATION + r"_pk_index/page_data\.lance",
    "key index lookup": GENERATION + r"_pk_index/page_lookup\.lance",
    "bloom filter": GENERATION + r"bloom_filter\.bin",
    "sidecar of a generation": GENERATION + r"_sarissa_\w+\.bin",
    "sidecar of a shard": r"_mem_wal/[^/]+/(manifest/|wal/)?_sarissa[^/]*",
    "sidecar of a store": r"_sarissa.*",
}
KINDS = ("flip", "cut in half", "last byte cut off", "zero length", "missing")
PAYLOAD = bytes(random.Random(7).randbytes(70_000))

FIRST = [plain("a"), plain("b", reward=1.5), FULL, with_payload("blob", PAYLOAD), plain("twice", content="old")]
SECOND = [plain("twice", content="new"), plain("c"), plain("a", content="again"), plain("c", content="within one generation")]
LOG = [[plain("l1")], [plain("l2"), plain("b", content="from the log")], [plain("l3")]]
TRUTH = [*FIRST, *SECOND, *(record for entry in LOG for record in entry)]


def write_all(api: Api, store: str) -> None:
    for records in (FIRST, SECOND):
        for record in records:
            payload = record.get("binary_payload")
            body = {key: value for key, value in record.items() if key != "binary_payload"}
            if payload is None:
                api.append(store, [body]).expect(201)
            else:
                api.append_multipart(store, [body], [(0, payload)]).expect(201)
        api.flush(store).expect(200)
    for entry in LOG:
        api.append(store, entry).expect(201)


def class_of(path: str) -> str:
    for name, pattern in CLASSES.items():
        if re.fullmatch(pattern, path):
            return name
    raise AssertionError(f"no class of files for {path}: give it one")


def files_by_class(store: pathlib.Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(store.rglob("*")):
        if path.is_file():
            relative = str(path.relative_to(store))
            found.setdefault(class_of(relative), []).append(relative)
    return found


def damage(path: pathlib.Path, kind: str, chooser: random.Random) -> str:
    """Does it, in a copy of its own; returns what was done, for the message of a failure."""
    data = bytearray(path.read_bytes())
    path.unlink()
    if kind == "missing":
        return "missing"
    if kind == "flip":
        bit = chooser.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        done = f"bit {bit} flipped"
    else:
        size = {"cut in half": len(data) // 2, "last byte cut off": len(data) - 1, "zero length": 0}[kind]
        del data[size:]
        done = f"cut to {size} bytes"
    path.write_bytes(data)
    return done


def names_file(message: str, store: str, file: str) -> bool:
    """By its own name; a manifest that can be read but makes no sense also by its table, or by the data file that it contradicts."""
    if pathlib.Path(file).name in message:
        return True
    if not file.endswith(".manifest"):
        return False
    generation = re.search(r"[0-9a-f]+_gen_\d+", file)
    if re.search(r"data file [0-9a-f-]{36}\.lance", message):
        return True
    table = pathlib.Path(file).parts[0] if file.startswith("_registry") else f"{store}.rollout.lance"
    return (generation.group() if generation else table) in message


class Reader:
    """Reads a store in every way, and judges."""

    def __init__(self, api: Api, store: str, what: str, file: str):
        self._api, self._store, self._what, self._file = api, store, what, file
        self.errors = 0

    def read(self) -> None:
        answer = self._api.list_answer(self._store)
        if answer.status == 200:
            self._right(lambda: assert_rows(TRUTH, answer.json()["records"]))
        else:
            self._typed(answer)
        for row_id in ("a", "twice", "full", "l2", "absent"):
            answer = self._api.get(f"{self._api.records_path(self._store)}/{row_id}")
            if answer.status == 200:
                expected = [record for record in TRUTH if record["id"] == row_id][-1:]
                found = answer.json()["record"]
                self._right(lambda: assert_rows(expected, [found] if found else []))
            else:
                self._typed(answer)
        answer = self._api.blob_answer(self._store, "blob")
        if answer.status == 200:
            assert answer.body == PAYLOAD, f"{self._what}: another payload"
        else:
            self._typed(answer)

    def _right(self, judge) -> None:
        try:
            judge()
        except AssertionError as error:
            raise AssertionError(f"{self._what}: wrong rows: {error}") from None

    def _typed(self, answer) -> None:
        self.errors += 1
        try:
            _, message = assert_envelope(answer, 500, 503)
        except AssertionError as error:
            raise AssertionError(f"{self._what}: {error}") from None
        assert names_file(message, self._store, self._file), f"{self._what}: the error does not name the file: {message}"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A data directory with one store, after a kill: two generations and rows in the log."""
    folder = tmp_path_factory.mktemp("template")
    server = Server(folder / "data").start()
    server.api().create("hurt").expect(201)
    write_all(server.api(), "hurt")
    server.kill9()
    return server.data_dir


def judge_all(failures: list[str]) -> None:
    assert not failures, f"{len(failures)} cases:\n" + "\n".join(failures[:40])


def run_cases(memory_path, template, cases: list[tuple[str, str, str]], chooser: random.Random, injected, counted: str = "") -> None:
    """A store of its own for each (class, file, kind); one server reads them all."""
    server = Server(memory_path / "data").start()
    api = server.api()
    for number in range(len(cases) + 1):
        api.create(f"d-{number}").expect(201)
    api.create("well").expect(201)
    server.kill9()
    api.close()
    directories = [server.data_dir / f"d-{number}.rollout.lance" for number in range(len(cases) + 1)]
    for directory in [*directories, server.data_dir / "well.rollout.lance"]:
        shutil.rmtree(directory)
        shutil.copytree(template / "hurt.rollout.lance", directory)
    whats = []
    for directory, (name, file, kind) in zip(directories, cases):
        whats.append(f"{name}, {file}: {damage(directory / file, kind, chooser)}")
        injected[f"{kind}: {name}"] += 1
    server.start()
    failures = []
    for number, ((name, file, kind), what) in enumerate(zip(cases, whats)):
        try:
            Reader(api, f"d-{number}", what, file).read()
        except AssertionError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{what}: the server died: {error!r}")
            assert not server.running, "the connection broke although the server runs"
            api.close()
            server.start()
    # Undamaged ones beside them.
    for store in (f"d-{len(cases)}", "well"):
        Reader(api, store, "not damaged", "none").read()
        answer = api.append(store, [plain("more")])
        answer.expect(201)
    server.kill9()
    judge_all(failures)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_the_right_rows_or_an_error_that_names_it(kind, memory_path, template, seed, injected):
    chooser = random.Random(seed)
    cases = []
    for name, files in files_by_class(template / "hurt.rollout.lance").items():
        if name == "log entry" and kind != "flip":
            # The last one is the tip: when it is gone nothing tells that there was one, and when it is cut it looks like a write
            # of another implementation that never ended.
            files = [file for file in files if file != tip(files)]
        chosen = chooser.choices(files, k=counts.DAMAGE_FLIPS) if kind == "flip" else files
        cases += [(name, file, kind) for file in chosen]
    run_cases(memory_path, template, cases, chooser, injected)


def tip(log: list[str]) -> str:
    return max(log, key=lambda file: int(pathlib.Path(file).stem[::-1], 2))


def test_strangers_in_every_directory_change_nothing(memory_path, template, injected):
    data = memory_path / "data"
    shutil.copytree(template, data)
    folders = [path for path in data.rglob("*") if path.is_dir()]
    for folder in [data, *folders]:
        for name in (".DS_Store", "stranger.bin", "zzz.lance", "a.manifest", "b.binpb", "c.arrow", "d.txn", "_gen_", "0" * 63 + "x.arrow"):
            (folder / name).write_bytes(b"a stranger")
            injected["foreign file"] += 1
        (folder / "lost+found").mkdir()
        (folder / "00000000-0000-4000-8000-00000000000g").mkdir()
        injected["foreign directory"] += 2
    server = Server(data).start()
    api = server.api()
    Reader(api, "hurt", "strangers everywhere", "none").read()
    api.append("hurt", [plain("more")], flush=True).expect(201)
    assert api.record("hurt", "more")["id"] == "more"
    assert [store["name"] for store in api.get("/api/v1/rollouts").expect(200).json()["stores"]] == ["hurt"]
    server.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_registry_is_an_error_or_complete_and_never_loses_a_store(kind, memory_path, template, seed, injected):
    chooser = random.Random(seed)
    registry, = template.glob("_registry*")
    files = sorted(path.relative_to(template) for path in registry.rglob("*") if path.is_file())
    failures = []
    newest = min(file for file in files if file.suffix == ".manifest")
    for number, file in enumerate(files):
        if kind == "missing" and file == newest:
            # Nothing but a hint tells that there was one.
            continue
        for attempt in range(max(1, counts.DAMAGE_FLIPS // 3) if kind == "flip" else 1):
            data = memory_path / f"registry-{number}-{attempt}"
            shutil.copytree(template, data)
            what = f"{file}: {damage(data / file, kind, chooser)}"
            injected[f"{kind}: registry"] += 1
            server = Server(data)
            server.launch()
            try:
                if not server.answers_or_died():
                    assert server.ended(10) and server._process.returncode == 1, f"{what}: the server crashed: {server.log_tail()}"
                    assert names_file(server.log_tail(3), "hurt", str(file)), f"{what}: the error does not name the file: {server.log_tail(3)}"
                    continue
                answer = server.api().get("/api/v1/rollouts")
                if answer.status == 200:
                    names = [store["name"] for store in answer.json()["stores"]]
                    assert names == ["hurt"], f"{what}: the stores are {names}"
                    Reader(server.api(), "hurt", what, str(file)).read()
                else:
                    _, message = assert_envelope(answer, 500, 503)
                    assert names_file(message, "hurt", str(file)), f"{what}: the error does not name the file: {message}"
            except AssertionError as error:
                failures.append(str(error))
            finally:
                server.discard()
                Server.all.remove(server)
    judge_all(failures)
