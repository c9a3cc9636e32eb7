"""The flush fence over HTTP, a flush that fails for everybody to see, and memory that is waited for with an end."""

import errno
import threading
import time

import pytest
from harness.faults import Faults

FLUSHES = 200
WRITERS = 4
WAIT_SECONDS = 60


def row(key: str, **more) -> dict:
    return {"id": key, "rollout_id": "r", "content": "x", **more}


def metric(api, name: str) -> float:
    for line in api.get("/metrics").expect(200).body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def until(condition, what: str):
    deadline = time.monotonic() + WAIT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS} s"
        time.sleep(0.01)
    return value


def test_flushes_under_four_writers_each_cover_what_was_acknowledged_before(server):
    server.api().create("exp").expect(201)
    acknowledged = [0] * WRITERS
    failures, stop = [], threading.Event()

    def write(client: int) -> None:
        api = server.api()
        while not stop.is_set():
            answer = api.append("exp", [row(f"c{client}-{acknowledged[client]}")])
            if answer.status != 201:
                failures.append(answer)
                return
            acknowledged[client] += 1

    writers = [threading.Thread(target=write, args=(client,)) for client in range(WRITERS)]
    for writer in writers:
        writer.start()
    api = server.api(timeout=WAIT_SECONDS)
    flushed = 0
    try:
        for _ in range(FLUSHES):
            before = sum(acknowledged)
            report = api.flush("exp").expect(200).json()
            assert set(report) == {"sealed_generation", "rows", "milliseconds"}
            flushed += report["rows"]
            assert flushed >= before, "a flush must cover every row that was acknowledged before it"
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not failures, failures[0]
    api.flush("exp").expect(200)
    # What the flushes covered is what another server sees: it reads generations, not this server's memory.
    assert len(api.list("exp", limit=1_000_000)) == sum(acknowledged)


@pytest.fixture
def faulty(make_server, tmp_path):
    faults = Faults(tmp_path)
    server = make_server(env=faults.env, args=("--rollout-flush-interval-secs", "0", "--flush-fail-deadline-secs", "600")).start()
    return server, faults


def test_a_failing_flush_shows_in_health_and_metrics_and_heals(faulty):
    server, faults = faulty
    api = server.api(timeout=WAIT_SECONDS)
    api.create("exp").expect(201)
    assert api.get("/api/v1/health").json() == {"status": "ok"}
    api.append("exp", [row("a")]).expect(201)
    rule = faults.arm("mkdir", "_gen_", errno.ENOSPC, times=-1)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(server.api(timeout=WAIT_SECONDS).flush("exp")))
    waiting.start()
    until(lambda: rule.injected >= 2, "the flush is tried again")
    health = api.get("/api/v1/health").expect(200).json()
    assert health["status"] == "degraded" and health["retrying"] == 1, health
    [trouble] = health["shards"]
    assert trouble["store"] == "exp" and trouble["state"] == "retrying" and trouble["cause"], trouble
    assert api.get("/readyz").expect(200).json()["shards"] == [trouble]
    assert metric(api, "rollout_wal_shards_retrying") == 1
    assert metric(api, "rollout_wal_flush_failures_total") >= 2
    assert [r["id"] for r in api.list("exp")] == ["a"], "its rows stay readable"
    api.append("exp", [row("b")]).expect(201)
    assert waiting.is_alive(), "the fence waits for its generation"
    rule.disarm()
    waiting.join(WAIT_SECONDS)
    assert answers and answers[0].expect(200).json()["rows"] == 1
    until(lambda: api.get("/api/v1/health").json() == {"status": "ok"}, "health")


def test_a_flush_that_fails_for_good_is_typed_everywhere_until_a_restart(make_server, tmp_path):
    faults = Faults(tmp_path)
    server = make_server(env=faults.env, args=("--rollout-flush-interval-secs", "0", "--flush-fail-deadline-secs", "1")).start()
    api = server.api(timeout=WAIT_SECONDS)
    for store in ("bad", "good"):
        api.create(store).expect(201)
        api.append(store, [row("a")]).expect(201)
    faults.arm("mkdir", "/bad.rollout.lance/_mem_wal", errno.ENOSPC, times=-1)
    for answer in (api.flush("bad"), api.flush("bad"), api.append("bad", [row("b")])):
        assert answer.status == 503 and answer.json()["error"]["code"] == "WRITER_FAILED", answer
        assert "retry-after" not in answer.headers
    assert [r["id"] for r in api.list("bad")] == ["a"]
    health = api.get("/api/v1/health").expect(200).json()
    assert health["failed"] == 1 and health["shards"][0]["state"] == "failed", health
    assert metric(api, "rollout_wal_shards_failed") == 1
    api.flush("good").expect(200)
    server.terminate()
    assert server.wait() != 0, "a stop that leaves rows only in the log says so"
    assert "generations 1" in server.log_tail(), server.log_tail()
    healed = make_server().start()
    assert [r["id"] for r in healed.api().list("bad")] == ["a"]


def test_memory_is_waited_for_and_the_wait_ends_with_503_and_nothing_written(make_server, tmp_path):
    faults = Faults(tmp_path)
    server = make_server(env=faults.env, args=("--rollout-flush-interval-secs", "0", "--memory-limit", "8MB", "--memory-wait-secs", "1")).start()
    api = server.api(timeout=WAIT_SECONDS)
    api.create("exp").expect(201)
    rule = faults.arm("mkdir", "_gen_", errno.ENOSPC, times=-1)
    text = "x" * 500_000
    accepted, refused = [], None
    for i in range(100):
        answer = api.append("exp", [row(f"k{i}", content=text)])
        if answer.status != 201:
            refused = answer
            break
        accepted.append(f"k{i}")
    assert refused is not None, "8 MB of memory held 50 MB of rows"
    assert refused.status == 503 and refused.json()["error"]["code"] == "OVERLOADED", refused
    assert "retry-after" in refused.headers
    # A caller that waits gets its turn when a flush has landed.
    rule.disarm()
    until(lambda: api.append("exp", [row("late", content=text)]).status == 201, "an append after the disk healed")
    assert sorted(r["id"] for r in api.list("exp", limit=1000)) == sorted([*accepted, "late"])
