"""Judges a store from outside: it knows what clients asked and were told, and what a read showed. Nothing else.

A write is (id, value) by one client. Its outcome is unknown from the moment it is sent until an answer says otherwise, and for
ever when none does. All writes of one id come from one client, one after another, so they have an order.

C1 durability: what was acknowledged is readable.
C2 no invention: what is readable was sent, with that value; what was refused is never readable; a write of unknown outcome
   may be either, but once seen it never disappears.
C3 exactly once: an id is listed once.
C4 order: a later write of an id wins; the rows of one client are listed in the order in which it wrote them.
C6 monotonic visibility: a read shows at least what was acknowledged or seen before it began.
"""

import collections
import enum
import threading
from typing import Any, Hashable, Iterable


class Violation(AssertionError):
    """The rule that was broken, and by which rows."""

    def __init__(self, rule: str, store: str, what: str, ids: Iterable[str]):
        self.rule = rule
        ids = sorted(ids)
        super().__init__(f"{rule}: {store}: {what}: {len(ids)}: {', '.join(ids[:10])}")


class Outcome(enum.Enum):
    UNKNOWN = "unknown"
    OK = "ok"
    REFUSED = "refused"


class Write:
    __slots__ = ("id", "value", "number", "client", "sequence", "outcome", "seen")

    def __init__(self, row_id: str, value: Hashable, number: int, client: str, sequence: int):
        self.id, self.value, self.number = row_id, value, number
        self.client, self.sequence = client, sequence
        self.outcome, self.seen = Outcome.UNKNOWN, False


class Floor:
    """What a read that begins now must show at least: per id, the number of the oldest write that may still be the newest."""

    def __init__(self, numbers: dict[str, int]):
        self.numbers = numbers


class History:
    """One store. Thread safe."""

    def __init__(self, store: str):
        self.store = store
        self._lock = threading.Lock()
        self._writes: dict[str, list[Write]] = {}
        self._floor: dict[str, int] = {}
        self._acknowledged: set[str] = set()
        self._sequences: collections.Counter = collections.Counter()

    # -- what clients did and were told

    def invoke(self, client: str, rows: Iterable[tuple[str, Hashable]]) -> list[Write]:
        """Before the request leaves."""
        with self._lock:
            made = []
            for row_id, value in rows:
                writes = self._writes.setdefault(row_id, [])
                assert all(write.client == client for write in writes), f"{row_id} has two writers: the order of its writes is unknown"
                assert all(write.value != value for write in writes), f"{row_id} is written twice with the value {value!r}"
                self._sequences[client] += 1
                write = Write(row_id, value, len(writes), client, self._sequences[client])
                writes.append(write)
                made.append(write)
            return made

    def ok(self, writes: Iterable[Write]) -> None:
        with self._lock:
            for write in writes:
                write.outcome = Outcome.OK
                self._acknowledged.add(write.id)
                self._raise_floor(write)

    def refused(self, writes: list[Write]) -> None:
        with self._lock:
            for write in writes:
                write.outcome = Outcome.REFUSED
            seen = [write.id for write in writes if write.seen]
            if seen:
                raise Violation("C2", self.store, "rows were readable although they were then refused", seen)

    # -- what reads show

    def floor(self) -> Floor:
        """Before a read is sent."""
        with self._lock:
            return Floor(dict(self._floor))

    def check(self, rows: Iterable[tuple[str, Any]], floor: Floor | None = None, *, ordered: bool = True) -> list[Write]:
        """Judges one whole listing: (id, value) in its order. Without a floor nothing was in flight during the read."""
        rows = list(rows)
        with self._lock:
            least = self._floor if floor is None else floor.numbers
            counts = collections.Counter(row_id for row_id, _ in rows)
            self._fail("C3", "listed more than once", [row_id for row_id, count in counts.items() if count > 1])
            self._fail("C2", "never sent", [row_id for row_id in counts if row_id not in self._writes])
            missing = [row_id for row_id in least if row_id not in counts]
            self._fail("C1", "acknowledged and gone", [row_id for row_id in missing if row_id in self._acknowledged])
            self._fail("C2", "seen before and gone", missing)
            shown = []
            for row_id, value in rows:
                shown.append(next((write for write in self._writes[row_id] if write.value == value), None))
            self._fail("C2", "with a value that was never sent", [rows[i][0] for i, write in enumerate(shown) if write is None])
            self._fail("C2", "refused and readable", [write.id for write in shown if write.outcome is Outcome.REFUSED])
            self._fail("C4", "an older value than was acknowledged or seen",
                       [write.id for write in shown if write.number < least.get(write.id, 0)])
            if ordered:
                self._check_order(shown)
            for write in shown:
                write.seen = True
                self._raise_floor(write)
            return shown

    def ids_seen(self) -> set[str]:
        """Every id that must be readable from now on."""
        with self._lock:
            return set(self._floor)

    def counts(self) -> dict[Outcome, int]:
        with self._lock:
            return collections.Counter(write.outcome for writes in self._writes.values() for write in writes)

    def _check_order(self, shown: list[Write]) -> None:
        last: dict[str, Write] = {}
        for write in shown:
            before = last.get(write.client)
            if before is not None and before.sequence > write.sequence:
                raise Violation("C4", self.store, f"rows of client {write.client} are out of order", [before.id, write.id])
            last[write.client] = write

    def _raise_floor(self, write: Write) -> None:
        self._floor[write.id] = max(self._floor.get(write.id, 0), write.number)

    def _fail(self, rule: str, what: str, ids: list[str]) -> None:
        if ids:
            raise Violation(rule, self.store, what, ids)
