"""The original implementation and this server meet on one store, with one instance id: no acknowledged row of ours is lost.

Of the original's rows only those count that it had flushed while it owned the shard: its add answers before the row is in its
log, and after it was fenced it is known to lose rows that it acknowledges.
"""

from harness.checker import History
from harness.load import append, check, code_of, record_of
from harness.original import OpenOriginal


class Meeting:
    """One store, what both sides wrote into it, and our connection to it."""

    def __init__(self, server):
        self.server = server
        self.api = server.api()
        self.history = History("s")
        self.directory = server.data_dir / "s.rollout.lance"
        self._rows = 0
        self.api.create("s").expect(201)

    def ours(self, **options):
        self._rows += 1
        return append(self.api, self.history, "ours", [(f"ours-{self._rows}", 0)], **options)

    def ours_is_fenced(self) -> None:
        answer = self.ours()
        assert answer.status == 503 and code_of(answer) == "FENCED", answer
        assert "retry-after" not in answer.headers

    def theirs(self, original: OpenOriginal, *, flush: bool) -> None:
        self._rows += 1
        row_id = f"theirs-{self._rows}"
        writes = self.history.invoke("theirs", [(row_id, 0)])
        original.add([record_of(row_id, 0)])
        if flush:
            original.flush()
            self.history.ok(writes)

    def theirs_fenced(self, original: OpenOriginal) -> None:
        """Whatever it says of this row means nothing."""
        self._rows += 1
        row_id = f"theirs-{self._rows}"
        self.history.invoke("theirs", [(row_id, 0)])
        original.attempt_add([record_of(row_id, 0)])
        original.attempt_flush()

    def check(self) -> None:
        check(self.api, self.history)

    def restart(self, *, kill: bool) -> None:
        self.api.close()
        if kill:
            self.server.kill9()
        else:
            # A fenced server may end with an error: it owns nothing that it could flush.
            self.server.terminate()
            self.server.wait()
        self.server.start()


def test_the_original_takes_a_store_that_this_server_serves(server, injected):
    meeting = Meeting(server)
    for _ in range(5):
        meeting.ours().expect(201)
    meeting.ours(flush=True).expect(201)
    meeting.ours().expect(201)
    with OpenOriginal(meeting.directory) as original:
        meeting.theirs(original, flush=True)
        injected["store taken over by the original"] += 1
        for _ in range(4):
            meeting.ours_is_fenced()
        # What the fenced server shows is what is on disk: the rows that the original replayed and flushed, and its own.
        meeting.check()
        meeting.theirs(original, flush=True)
        meeting.check()
        assert meeting.history.ids_seen() <= {row["id"] for row in original.rows()}
        meeting.theirs(original, flush=False)
    meeting.restart(kill=True)
    meeting.check()
    meeting.ours().expect(201)
    meeting.check()
    server.stop()


def test_this_server_takes_a_store_that_the_original_has_open(server, injected):
    meeting = Meeting(server)
    meeting.ours().expect(201)
    meeting.api.close()
    server.stop()
    with OpenOriginal(meeting.directory) as original:
        meeting.theirs(original, flush=True)
        server.start()
        for _ in range(3):
            meeting.ours().expect(201)
        injected["store taken over from the original"] += 1
        meeting.check()
        # The original does not know yet. Whatever it does, our rows stay.
        meeting.theirs_fenced(original)
        for turn in range(4):
            answer = meeting.ours(flush=turn == 2)
            assert answer.status == 201 or code_of(answer) == "FENCED", answer.body
            meeting.check()
        meeting.theirs_fenced(original)
        meeting.ours()
        meeting.check()
    meeting.restart(kill=True)
    meeting.check()
    meeting.ours().expect(201)
    meeting.check()
    server.stop()


def test_both_take_the_store_by_turns(server, injected):
    """Claims by turns, each over rows that are only in the log of the one before."""
    meeting = Meeting(server)
    for turn in range(4):
        meeting.ours().expect(201)
        meeting.ours(flush=turn % 2 == 1).expect(201)
        meeting.ours().expect(201)
        with OpenOriginal(meeting.directory) as original:
            meeting.theirs(original, flush=True)
            if turn % 2:
                meeting.theirs(original, flush=False)
        injected["store taken over by the original"] += 1
        meeting.ours_is_fenced()
        meeting.restart(kill=turn % 2 == 0)
        meeting.check()
    meeting.restart(kill=False)
    meeting.check()
    server.stop()
