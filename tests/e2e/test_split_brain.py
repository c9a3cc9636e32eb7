"""Two servers with one instance id over one directory: they write the same shards, and at most one of them may win.

Whatever was answered with 2xx by either is readable in the end. The loser says so at once, with 503 FENCED and no Retry-After,
and does not take the store back while it lives.
"""

import random
import threading
import time

import counts

from harness.checker import History, Outcome
from harness.http_api import Answer, Api
from harness.load import append, check, code_of
from harness.server import Server

CLIENTS = 4
APPENDS = 200
# A request that takes longer hangs.
ANSWER_SECONDS = 20
ROUNDS_OF_A_CHECK = 30
RACES = 25


def assert_fenced(answer: Answer) -> None:
    assert answer.status == 503 and code_of(answer) == "FENCED", f"{answer.status}: {answer.body[:500]!r}"
    assert "retry-after" not in answer.headers, "asking a fenced server again heals nothing"


class Client(threading.Thread):
    """Appends single rows over one server whatever it answers; keeps every answer."""

    def __init__(self, server: Server, history: History, label: str, count: int, barrier: threading.Barrier):
        super().__init__(daemon=True)
        self._server, self._history, self._label, self._count, self._barrier = server, history, label, count, barrier
        self.answers: list[Answer | None] = []
        self.slowest = 0.0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            api = self._server.api(timeout=ANSWER_SECONDS)
            self._barrier.wait()
            for number in range(self._count):
                began = time.monotonic()
                self.answers.append(append(api, self._history, self._label, [(f"{self._label}-{number}", 0)]))
                self.slowest = max(self.slowest, time.monotonic() - began)
        except BaseException as error:  # noqa: BLE001 - the test's own thread reports it
            self.failure = error


def run_clients(clients: list[Client]) -> None:
    for client in clients:
        client.start()
    for client in clients:
        client.join(APPENDS * ANSWER_SECONDS)
        assert not client.is_alive(), "a request hangs"
        if client.failure is not None:
            raise client.failure
        assert client.slowest < ANSWER_SECONDS, f"a request took {client.slowest:.1f} s"


def test_every_acknowledged_row_of_both_is_listed_and_the_loser_stays_fenced(make_server, injected):
    first = make_server("data").start()
    first.api().create("duel").expect(201)
    second = Server(first.data_dir).start()
    history = History("duel")
    append(first.api(), history, "early", [("early", 0)]).expect(201)

    barrier = threading.Barrier(2 * CLIENTS)
    sides = {server: [Client(server, history, f"{side}-{number}", APPENDS // CLIENTS, barrier) for number in range(CLIENTS)]
             for side, server in (("a", first), ("b", second))}
    run_clients([client for clients in sides.values() for client in clients])
    answers = {server: [answer for client in clients for answer in client.answers] for server, clients in sides.items()}
    assert all(answer is not None for given in answers.values() for answer in given), "a connection broke"

    # Who still answers with 201 has won.
    last = {server: append(server.api(), history, f"last-{server.port}", [(f"last-{server.port}", 0)]) for server in sides}
    winners = [server for server in sides if last[server].status == 201]
    assert len(winners) == 1, f"{len(winners)} servers own one shard: {last}"
    winner, = winners
    loser = second if winner is first else first
    assert all(answer.status == 201 for answer in answers[winner]), [a for a in answers[winner] if a.status != 201][:3]
    for client in sides[loser]:
        statuses = [answer.status for answer in client.answers]
        fenced_at = statuses.index(503) if 503 in statuses else len(statuses)
        assert all(status == 201 for status in statuses[:fenced_at]), statuses
        for answer in client.answers[fenced_at:]:
            assert_fenced(answer)
    refused = sum(answer.status == 503 for answer in answers[loser])
    injected["append to a fenced server"] += refused + 1

    # The loser stays fenced, whatever it is asked, and shows only what is in the store.
    api = loser.api(timeout=ANSWER_SECONDS)
    assert_fenced(api.flush("duel"))
    for number in range(3):
        assert_fenced(append(api, history, "late", [(f"late-{number}", 0)]))
        append(winner.api(), history, "winner", [(f"winner-{number}", 0)]).expect(201)
    check(winner.api(), history)

    winner.kill9()
    third = Server(first.data_dir).start()
    check(third.api(), history)
    assert history.counts()[Outcome.OK] >= APPENDS
    # The winner is gone and a third one owns the shard: the loser has not come back.
    append(third.api(), history, "third", [("third", 0)]).expect(201)
    assert_fenced(append(api, history, "late", [("late", 0)]))
    check(third.api(), history)
    third.stop()
    loser.terminate()
    loser.wait()
    final = Server(first.data_dir).start()
    check(final.api(), history)
    final.stop()


def test_whoever_loses_the_race_for_a_new_store_stays_fenced(tmp_path, injected):
    servers = [Server(tmp_path / "data").start(), Server(tmp_path / "data").start()]
    histories = [History(f"race-{number}") for number in range(RACES)]
    for history in histories:
        servers[0].api().create(history.store).expect(201)
    for history in histories:
        barrier = threading.Barrier(2)
        clients = [Client(server, history, f"side-{side}", 4, barrier) for side, server in enumerate(servers)]
        run_clients(clients)
        for client in clients:
            fenced = False
            for answer in client.answers:
                if answer.status == 201:
                    assert not fenced, f"{history.store}: a server that had said FENCED took the store back"
                else:
                    assert_fenced(answer)
                    fenced = True
        injected["race of two servers for a new shard"] += 1
    for server in servers:
        server.kill9()
    third = Server(tmp_path / "data").start()
    for history in histories:
        check(third.api(), history)
    third.stop()


class Duel:
    """One round: a store of its own, two servers, a random schedule."""

    def __init__(self, servers: list[Server], apis: list[Api], history: History, chooser: random.Random):
        self._servers, self._apis, self._history, self._chooser = servers, apis, history, chooser
        self._rows = 0
        self._fenced_sides: set[int] = set()
        self.fenced = 0

    def restarted(self, side: int) -> None:
        self._fenced_sides.discard(side)

    def run(self) -> None:
        for _ in range(self._chooser.randint(2, 6)):
            step = self._chooser.random()
            if step < 0.45:
                self._append(self._chooser.randrange(2))
            elif step < 0.8:
                self._both()
            else:
                self._flush(self._chooser.randrange(2))

    def _append(self, side: int) -> None:
        self._rows += 1
        answer = append(self._apis[side], self._history, f"side-{side}", [(f"{side}-{self._rows}", 0)], flush=self._chooser.random() < 0.2)
        self._judge(side, answer)

    def _both(self) -> None:
        self._rows += 1
        barrier = threading.Barrier(2)
        clients = [Client(server, self._history, f"{side}-{self._rows}", self._chooser.randint(1, 3), barrier)
                   for side, server in enumerate(self._servers)]
        run_clients(clients)
        for side, client in enumerate(clients):
            for answer in client.answers:
                self._judge(side, answer)

    def _flush(self, side: int) -> None:
        answer = self._apis[side].flush(self._history.store)
        # A server that never wrote has nothing to flush.
        if answer.status != 200:
            self._judge(side, answer)

    def _judge(self, side: int, answer: Answer | None) -> None:
        assert answer is not None, "a connection broke"
        if answer.status == 201:
            assert side not in self._fenced_sides, f"{self._history.store}: server {side} said FENCED and took the store back"
            return
        assert_fenced(answer)
        self._fenced_sides.add(side)
        self.fenced += 1


def test_random_schedules_of_two_servers(memory_path, seed, injected):
    chooser = random.Random(seed)
    servers = [Server(memory_path / "data"), Server(memory_path / "data")]
    for server in servers:
        server.start()
    histories: list[History] = []
    for turn in range(counts.SPLIT_BRAIN_ROUNDS):
        history = History(f"duel-{turn}")
        apis = [server.api(timeout=ANSWER_SECONDS) for server in servers]
        apis[turn % 2].create(history.store).expect(201)
        duel = Duel(servers, apis, history, chooser)
        duel.run()
        if turn % 5 == 4:
            # One of them ends while the other one lives, and comes back: now it is the newer one.
            side = chooser.randrange(2)
            restarted = servers[side]
            if chooser.random() < 0.5:
                restarted.kill9()
            else:
                restarted.terminate()
                restarted.wait()
            restarted.start()
            duel.restarted(side)
            for api in apis:
                api.close()
            duel.run()
            injected["restart of one of two servers"] += 1
        injected["round of two servers on one shard"] += 1
        injected["append to a fenced server"] += duel.fenced
        histories.append(history)
        for api in apis:
            api.close()
        if len(histories) == ROUNDS_OF_A_CHECK or turn == counts.SPLIT_BRAIN_ROUNDS - 1:
            third = Server(memory_path / "data").start()
            api = third.api()
            for checked in histories:
                check(api, checked)
            third.kill9()
            Server.all.remove(third)
            histories.clear()
    for server in servers:
        server.kill9()
