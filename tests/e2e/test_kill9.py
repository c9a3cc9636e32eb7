"""kill -9 in a loop under concurrent writers and a reader, judged from outside.

After every round a fresh process must show: every acknowledged row with its newest value, no row twice, no row that was never
sent, nothing that was refused, every row with the content that was sent, and everything that was ever seen before.
"""

import http.client
import random
import threading
import time

import counts

from harness import lance_files
from harness.checker import History
from harness.load import Writer, check, has_payload, join, payload_of, rows_of

# Old stores are left alone after so many rounds, so that the cost of a round does not grow.
ROUNDS_OF_A_STORE = 4


class Reader(threading.Thread):
    """Lists stores by turns while others write to them: a read shows what was acknowledged or seen before it began."""

    def __init__(self, server, histories: list[History], barrier: threading.Barrier):
        super().__init__(daemon=True)
        self._server, self._histories, self._barrier = server, histories, barrier
        self.failure: BaseException | None = None
        self.reads = 0

    def run(self) -> None:
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - the test's own thread reports it
            self.failure = error

    def _read(self) -> None:
        api = self._server.api(timeout=60)
        self._barrier.wait()
        while True:
            history = self._histories[self.reads % len(self._histories)]
            floor = history.floor()
            try:
                answer = api.list_answer(history.store)
            except (OSError, http.client.HTTPException):
                return
            assert answer.status == 200, answer.body[:500]
            history.check(rows_of(answer.json()["records"]), floor)
            self.reads += 1


class Stores:
    """The stores of one test: the few that are written to now, and those that were."""

    def __init__(self, prefix: str):
        self._prefix = prefix
        self.current: list[History] = []
        self.all: list[History] = []
        self._content: dict[str, set[str]] = {}
        self._payloads: dict[str, set[str]] = {}

    def renew(self, server, count: int) -> None:
        api = server.api()
        self.current = [History(f"{self._prefix}-{len(self.all) + number}") for number in range(count)]
        self.all += self.current
        for history in self.current:
            api.create(history.store).expect(201)
        api.close()

    def check(self, server, histories: list[History]) -> None:
        api = server.api()
        for history in histories:
            rows = check(api, history, content=self._content.setdefault(history.store, set()))
            checked = self._payloads.setdefault(history.store, set())
            for row_id, version in rows_of(rows):
                if has_payload(row_id) and f"{row_id}/{version}" not in checked:
                    assert api.blob(history.store, row_id) == payload_of(row_id, version), f"{history.store}: payload of {row_id}"
                    checked.add(f"{row_id}/{version}")
        api.close()


def test_no_acknowledged_row_is_lost_doubled_or_invented(make_server, seed, injected):
    chooser = random.Random(seed)
    server = make_server().start()
    stores = Stores("kill")
    appends = reads = 0
    for turn in range(counts.KILL9_ROUNDS):
        if turn % ROUNDS_OF_A_STORE == 0:
            stores.renew(server, 3)
        barrier = threading.Barrier(counts.KILL9_WRITERS + 2)
        histories = stores.current[:1] if turn % 4 == 3 else stores.current
        writers = [
            Writer(lambda: server.api(timeout=60), histories[number % len(histories)], f"{turn}-{number}", chooser.randrange(2**32),
                   barrier=barrier, flush_share=0.2 if turn % 3 == 1 else 0.0)
            for number in range(counts.KILL9_WRITERS)]
        reader = Reader(server, histories, barrier)
        for thread in [*writers, reader]:
            thread.start()
        barrier.wait()
        time.sleep(chooser.uniform(0.005, 0.5))
        server.kill9()
        injected["kill -9 at a random time"] += 1
        appends += join([*writers])
        reader.join(120)
        assert reader.failure is None, reader.failure
        reads += reader.reads
        server.start()
        stores.check(server, stores.current)
    assert appends > counts.KILL9_ROUNDS, f"only {appends} appends were answered in {counts.KILL9_ROUNDS} rounds"
    print(f"{counts.KILL9_ROUNDS} rounds, {appends} appends, {reads} reads under load, {sum(len(h.ids_seen()) for h in stores.all)} rows")

    stores.check(server, stores.all)
    server.stop()
    for history in stores.all:
        directory = server.data_dir / f"{history.store}.rollout.lance"
        assert lance_files.rows_only_in_log(directory) == 0
        ids = [row["id"] for row in lance_files.read_merged(directory)]
        assert len(ids) == len(set(ids)) and set(ids) == history.ids_seen(), f"{history.store}: pylance sees other rows"
    server.start()
    stores.check(server, stores.all)
    server.stop()
