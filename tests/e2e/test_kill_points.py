"""The server kills itself at each of its named points, at the first, second, ... passage, under concurrent writers.

The names come from the source: a point without a case here fails the test.
"""

import http.client
import random
import re
import threading

import counts
import pytest
from test_kill9 import Stores

from harness.load import Writer, append, join
from harness.server import ROOT, Server

# A claim happens once a store and run.
STORES = counts.KILL_POINT_PASSAGES
# What a kill at the point needs, besides appends: a store that is made, rows that are flushed, a claim of a shard that has an
# older epoch. Every run does all of it, again and again, so a case is only the name.
CASES = {
    "claim.after_manifest", "claim.after_sentinel", "flush.after_commit", "flush.after_data", "flush.after_index",
    "lance.commit.after_manifest", "lance.commit.before_manifest", "local_store.after_link", "local_store.before_link",
    "log.after_put", "log.before_ack", "log.before_insert", "log.before_put", "posix_file.sync",
    "posix_file_system.sync_directory", "shard_manifest.after_put",
}
# Points of code that the server does not run yet; one that it reaches after all needs a case.
NOT_RUN_BY_THE_SERVER = ("merge.", "cleanup.")
DEATH_SECONDS = 60


def points_in_source() -> set[str]:
    found = set()
    for path in [*(ROOT / "src").rglob("*.cc"), *(ROOT / "src").rglob("*.h")]:
        if path.name != "sync_point.h":
            found.update(re.findall(r'SARISSA_SYNC_POINT\(\s*"([^"]+)"\s*\)', path.read_text()))
    return found


def test_every_named_point_has_a_case():
    points = points_in_source()
    missing = {name for name in points - CASES if not name.startswith(NOT_RUN_BY_THE_SERVER)}
    assert not missing, f"named points without a case in CASES: {sorted(missing)}"
    gone = CASES - points
    assert not gone, f"cases of points that are not in src/ any more: {sorted(gone)}"


class World:
    """One data directory over all kills of a name."""

    def __init__(self, memory_path, name: str, chooser: random.Random):
        self._chooser = chooser
        self._data_dir = memory_path / re.sub(r"[^a-z0-9]", "-", name)
        self._plain = Server(self._data_dir).start()
        self._stores = Stores("points")
        self._stores.renew(self._plain, STORES)
        # Only a shard that had a writer before has somebody to fence.
        for history in self._stores.current:
            append(self._plain.api(), history, "first", [("first", 0)]).expect(201)
        self._turn = 0

    def run(self, *points: tuple[str, int]) -> list[bool]:
        """Runs one server after another that dies at this passage of this point, and says which did. Then a plain one must show
        what the clients know."""
        self._plain.kill9()
        died = []
        for point, passage in points:
            doomed = Server(self._data_dir, env={"SARISSA_KILL_AT": f"{point}:{passage}"})
            self._turn += 1
            died.append(self._load(doomed))
            doomed.discard()
        self._plain.start()
        self._stores.check(self._plain, self._stores.current)
        return died

    def end(self) -> None:
        self._plain.restart()
        self._stores.check(self._plain, self._stores.current)
        self._plain.stop()

    def _load(self, doomed: Server) -> bool:
        doomed.launch()
        if not doomed.answers_or_died():
            return True
        writers = [
            Writer(lambda: doomed.api(timeout=60), history, f"{self._turn}-{number}", self._chooser.randrange(2**32),
                   flush_share=0.3, limit=10 * counts.KILL_POINT_PASSAGES)
            for number, history in enumerate(self._stores.current * 2)]
        # Stores that nobody checks: only their making and their end count.
        extra = threading.Thread(target=self._make_and_drop, args=(doomed, f"extra-{self._turn}"), daemon=True)
        for thread in [*writers, extra]:
            thread.start()
        join(writers)
        extra.join(DEATH_SECONDS)
        assert not extra.is_alive(), "a request did not end"
        return any(writer.disconnected for writer in writers) and doomed.ended(DEATH_SECONDS) or not doomed.running

    def _make_and_drop(self, doomed: Server, prefix: str) -> None:
        api = doomed.api(timeout=60)
        try:
            for number in range(counts.KILL_POINT_PASSAGES):
                api.create(f"{prefix}-{number}").expect(201)
                api.append(f"{prefix}-{number}", [{"id": "x", "rollout_id": "r"}], flush=True).expect(201)
                api.delete(f"{prefix}-{number}").expect(204)
        except (OSError, http.client.HTTPException):
            return


@pytest.mark.parametrize("name", sorted(CASES))
def test_killed_at_a_named_point(name, memory_path, seed, injected):
    chooser = random.Random(seed)
    world = World(memory_path, name, chooser)
    for passage in range(1, counts.KILL_POINT_PASSAGES + 1):
        assert world.run((name, passage)) == [True], f"the server never reached passage {passage} of {name}"
        injected[f"kill at {name}"] += 1
    # Killed once more before it has recovered, and at another point when it recovers from that.
    others = [(chooser.choice(sorted(CASES)), chooser.randint(1, counts.KILL_POINT_PASSAGES)) for _ in range(2)]
    died = world.run((name, 1), *others)
    for (point, _), dead in zip([(name, 1), *others], died):
        injected[f"kill at {point}"] += dead
    world.end()


def test_points_that_the_server_does_not_run_are_not_reached(memory_path, seed):
    for name in sorted(points_in_source()):
        if name.startswith(NOT_RUN_BY_THE_SERVER):
            world = World(memory_path, name, random.Random(seed))
            assert world.run((name, 1)) == [False], f"the server reaches {name}: give it a case"
            world.end()
