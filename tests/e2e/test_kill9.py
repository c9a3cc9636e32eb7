"""kill -9 in a loop under concurrent writers, judged from outside.

After every round a fresh process must show: every acknowledged row, no row twice, no row that was never sent, nothing that was
refused, every row with the content that was sent, and everything that was ever seen before.
"""

import hashlib
import http.client
import random
import threading
import time

import counts
import pytest

from harness import lance_files
from harness.expected_rows import assert_rows

STORES = ["kill-a", "kill-b", "kill-c"]
LARGE_BYTES = 1_300_000


def record_of(record_id: str) -> dict:
    """A record whose every field follows from its id."""
    digest = hashlib.sha256(record_id.encode()).digest()
    size = int.from_bytes(digest[:2], "big") % 2000
    record = {"id": record_id, "rollout_id": f"r-{digest[2] % 16}", "sequence_order": digest[3], "role": ["user", "tool"][digest[4] % 2],
              "content": digest.hex() * (1 + size // 64), "reward": digest[5] / 8, "output_tokens": list(digest[6:10]),
              "metadata": {"id": record_id}}
    if digest[10] % 64 == 0:
        record["binary_payload"] = payload_of(record_id)
        record["payload_size"] = len(record["binary_payload"])
    return record


def payload_of(record_id: str) -> bytes:
    seed = hashlib.sha256(b"payload" + record_id.encode()).digest()
    return (seed * (LARGE_BYTES // len(seed) + 1))[:LARGE_BYTES]


def has_payload(record_id: str) -> bool:
    return hashlib.sha256(record_id.encode()).digest()[10] % 64 == 0


class Checker:
    """The history of one store as its clients know it."""

    def __init__(self):
        self._lock = threading.Lock()
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self.refused: set[str] = set()
        self.seen: set[str] = set()

    def note(self, outcome: set, ids: list[str]) -> None:
        with self._lock:
            outcome.update(ids)

    def check(self, store: str, rows: list[dict]) -> None:
        ids = [row["id"] for row in rows]
        listed = set(ids)
        assert len(ids) == len(listed), f"{store}: doubled {sorted(i for i in listed if ids.count(i) > 1)[:10]}"
        lost = self.acknowledged - listed
        assert not lost, f"{store}: {len(lost)} acknowledged rows are gone: {sorted(lost)[:10]}"
        invented = listed - self.acknowledged - self.unknown
        assert not invented, f"{store}: rows that were never sent or were refused: {sorted(invented)[:10]}"
        vanished = self.seen - listed
        assert not vanished, f"{store}: rows that were seen before are gone: {sorted(vanished)[:10]}"
        fresh = [row for row in rows if row["id"] not in self.seen]
        assert_rows([record_of(row["id"]) for row in fresh], fresh)
        self.seen = listed
        # What an unknown outcome left behind is as good as acknowledged from now on.
        self.unknown -= listed
        self.acknowledged |= listed


class Writer(threading.Thread):
    """Appends until the server is gone. Its last request has an unknown outcome."""

    def __init__(self, server, store: str, checker: Checker, label: str, seed: int, flushing: bool, barrier: threading.Barrier):
        super().__init__(daemon=True)
        self._server, self._store, self._checker, self._label = server, store, checker, label
        self._random, self._flushing, self._barrier = random.Random(seed), flushing, barrier
        self.failure: Exception | None = None
        self.appends = 0

    def run(self) -> None:
        try:
            self._write_until_dead()
        except Exception as error:  # noqa: BLE001 - the test's own thread reports it
            self.failure = error

    def _write_until_dead(self) -> None:
        with_server = self._server.api(timeout=60)
        self._barrier.wait()
        while True:
            ids = [f"{self._label}-{self.appends}-{i}" for i in range(self._random.choice((1, 1, 1, 2, 5, 20)))]
            records = [record_of(record_id) for record_id in ids]
            payloads = [(i, r.pop("binary_payload")) for i, r in enumerate(records) if "binary_payload" in r]
            flush = self._flushing and self._random.random() < 0.2
            # Until an answer says otherwise, the outcome of what is on its way is unknown.
            self._checker.note(self._checker.unknown, ids)
            try:
                if payloads:
                    answer = with_server.append_multipart(self._store, records, payloads, flush=flush)
                else:
                    answer = with_server.append(self._store, records, flush=flush)
            except (OSError, http.client.HTTPException):
                return
            self.appends += 1
            if answer.status == 201:
                self._checker.note(self._checker.acknowledged, ids)
            elif answer.status == 503:
                # Over the budget: nothing was written.
                assert answer.json()["error"]["code"] == "OVERLOADED", answer.body
                with self._checker._lock:
                    self._checker.unknown.difference_update(ids)
                self._checker.note(self._checker.refused, ids)
            else:
                raise AssertionError(f"append answered {answer.status}: {answer.body[:500]!r}")


def check_all(server, checkers: dict[str, Checker], chooser: random.Random) -> None:
    api = server.api()
    for store, checker in checkers.items():
        before = set(checker.seen)
        checker.check(store, api.list(store))
        large = [record_id for record_id in checker.seen if has_payload(record_id)]
        fresh = [record_id for record_id in large if record_id not in before]
        for record_id in fresh[:4] + chooser.sample(large, min(2, len(large))):
            assert api.blob(store, record_id) == payload_of(record_id), f"{store}: payload of {record_id}"


@pytest.fixture
def seed():
    value = random.SystemRandom().randrange(2**32)
    print(f"seed {value}")
    return value


def test_no_acknowledged_row_is_lost_doubled_or_invented(make_server, seed):
    chooser = random.Random(seed)
    server = make_server().start()
    checkers = {store: Checker() for store in STORES}
    for store in STORES:
        server.api().create(store).expect(201)
    appends = 0
    for turn in range(counts.KILL9_ROUNDS):
        barrier = threading.Barrier(counts.KILL9_WRITERS + 1)
        flushing = turn % 3 == 1
        stores = STORES[:1] if turn % 4 == 3 else STORES
        writers = [
            Writer(server, stores[n % len(stores)], checkers[stores[n % len(stores)]], f"{turn}-{n}", chooser.randrange(2**32),
                   flushing, barrier)
            for n in range(counts.KILL9_WRITERS)]
        for writer in writers:
            writer.start()
        barrier.wait()
        time.sleep(chooser.uniform(0.005, 0.5))
        server.kill9()
        for writer in writers:
            writer.join(120)
            assert not writer.is_alive(), "a request did not end although the server is gone"
            assert writer.failure is None, writer.failure
        appends += sum(writer.appends for writer in writers)
        server.start()
        check_all(server, checkers, chooser)
    assert appends > counts.KILL9_ROUNDS, f"only {appends} appends were answered in {counts.KILL9_ROUNDS} rounds"
    print(f"{counts.KILL9_ROUNDS} rounds, {appends} appends, {sum(len(c.seen) for c in checkers.values())} rows")

    server.stop()
    for store, checker in checkers.items():
        directory = server.data_dir / f"{store}.rollout.lance"
        assert lance_files.rows_only_in_log(directory) == 0
        ids = [row["id"] for row in lance_files.read_merged(directory)]
        assert len(ids) == len(set(ids)) and set(ids) == checker.seen, f"{store}: pylance sees other rows"
    server.start()
    check_all(server, checkers, chooser)
    server.stop()
