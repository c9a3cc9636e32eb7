"""Clients that write until they are told to stop or their server is gone, and tell a History what they were told."""

import hashlib
import http.client
import random
import threading
from typing import Callable

from harness.checker import History
from harness.expected_rows import assert_rows
from harness.http_api import Answer, Api

LARGE_BYTES = 1_300_000
# Refused for certain: nothing of the request is or will be in the store.
REFUSED = {"OVERLOADED", "NO_SPACE", "WRITER_FAILED", "INVALID_REQUEST", "NOT_FOUND", "DRAINING"}
# The rows may be in the store. FENCED too: an entry may land just before the successor's mark and be replayed by it.
UNKNOWN = {"OUTCOME_UNKNOWN", "FENCED", "INTERNAL", "TIMEOUT"}


def record_of(row_id: str, version: int) -> dict:
    """A record whose every field follows from its id and the number of the write."""
    digest = hashlib.sha256(f"{row_id}/{version}".encode()).digest()
    size = int.from_bytes(digest[:2], "big") % 2000
    return {"id": row_id, "rollout_id": f"r-{digest[2] % 16}", "sequence_order": digest[3], "role": ["user", "tool"][digest[4] % 2],
            "content": digest.hex() * (1 + size // 64), "reward": digest[5] / 8, "output_tokens": list(digest[6:10]),
            "metadata": {"version": version}}


def has_payload(row_id: str) -> bool:
    return hashlib.sha256(row_id.encode()).digest()[10] % 64 == 0


def payload_of(row_id: str, version: int) -> bytes:
    seed = hashlib.sha256(f"payload {row_id}/{version}".encode()).digest()
    return (seed * (LARGE_BYTES // len(seed) + 1))[:LARGE_BYTES]


def code_of(answer: Answer) -> str:
    return answer.json()["error"]["code"]


def append(api: Api, history: History, client: str, rows: list[tuple[str, int]], *, payloads: bool = False,
           flush: bool = False) -> Answer | None:
    """One append; the history learns the outcome. None: the connection broke."""
    records = [record_of(row_id, version) for row_id, version in rows]
    parts = []
    if payloads:
        for index, (row_id, version) in enumerate(rows):
            if has_payload(row_id):
                parts.append((index, payload_of(row_id, version)))
                records[index]["payload_size"] = LARGE_BYTES
    writes = history.invoke(client, rows)
    try:
        if parts:
            answer = api.append_multipart(history.store, records, parts, flush=flush)
        else:
            answer = api.append(history.store, records, flush=flush)
    except (OSError, http.client.HTTPException):
        return None
    if answer.status == 201:
        history.ok(writes)
        return answer
    code = code_of(answer)
    if code == "DURABLE_NOT_FLUSHED":
        history.ok(writes)
    elif code in REFUSED:
        history.refused(writes)
    else:
        assert code in UNKNOWN, f"append answered {answer.status}: {answer.body[:500]!r}"
    return answer


def rows_of(records: list[dict]) -> list[tuple[str, int]]:
    return [(record["id"], record["metadata"]["version"]) for record in records]


def check(api: Api, history: History, *, content: set[str] | None = None, ordered: bool = True) -> list[dict]:
    """Lists the store and judges it. The fields of rows that `content` does not hold yet are compared one by one."""
    floor = history.floor()
    records = api.list(history.store)
    history.check(rows_of(records), floor, ordered=ordered)
    fresh = records if content is None else [record for record in records if f"{record['id']}/{record['metadata']['version']}" not in content]
    assert_rows([with_size(record) for record in fresh], fresh)
    if content is not None:
        content.update(f"{record['id']}/{record['metadata']['version']}" for record in fresh)
    return records


def with_size(record: dict) -> dict:
    expected = record_of(record["id"], record["metadata"]["version"])
    if "payload_size" in record:
        expected["payload_size"] = LARGE_BYTES
    return expected


class Writer(threading.Thread):
    """Appends new rows and writes some of its own again, until the server or the test ends it."""

    def __init__(self, connect: Callable[[], Api], history: History, client: str, seed: int, *, barrier: threading.Barrier | None = None,
                 stop: threading.Event | None = None, flush_share: float = 0.0, rewrite_share: float = 0.15, payloads: bool = True,
                 limit: int | None = None, on_error: Callable[[Answer], bool] | None = None):
        super().__init__(daemon=True)
        self._connect, self._history, self._client = connect, history, client
        self._random, self._barrier, self._ended = random.Random(seed), barrier, stop
        self._flush_share, self._rewrite_share, self._payloads = flush_share, rewrite_share, payloads
        self._limit, self._on_error = limit, on_error
        self._versions: dict[str, int] = {}
        self.appends = 0
        self.disconnected = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - the test's own thread reports it
            self.failure = error

    def _write(self) -> None:
        api = self._connect()
        if self._barrier is not None:
            self._barrier.wait()
        turn = 0
        while (self._ended is None or not self._ended.is_set()) and (self._limit is None or turn < self._limit):
            turn += 1
            answer = append(api, self._history, self._client, self._rows(turn), payloads=self._payloads,
                            flush=self._random.random() < self._flush_share)
            if answer is None:
                self.disconnected = True
                return
            if answer.status == 201:
                self.appends += 1
            elif code_of(answer) == "OVERLOADED":
                continue
            elif self._on_error is None or not self._on_error(answer):
                raise AssertionError(f"append answered {answer.status}: {answer.body[:500]!r}")

    def _rows(self, turn: int) -> list[tuple[str, int]]:
        rows = {}
        for number in range(self._random.choice((1, 1, 1, 2, 5, 20))):
            if self._versions and self._random.random() < self._rewrite_share:
                row_id = self._random.choice(list(self._versions)[-50:])
            else:
                row_id = f"{self._client}-{turn}-{number}"
            if row_id in rows:
                continue
            self._versions[row_id] = rows[row_id] = self._versions.get(row_id, -1) + 1
        return list(rows.items())


def join(writers: list[Writer], seconds: float = 120) -> int:
    """Waits for all of them; returns how many appends were acknowledged."""
    for writer in writers:
        writer.join(seconds)
        assert not writer.is_alive(), "a request did not end"
        if writer.failure is not None:
            raise writer.failure
    return sum(writer.appends for writer in writers)
