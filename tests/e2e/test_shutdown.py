"""SIGTERM: readiness goes, requests that are in flight finish, every row reaches a generation, exit code 0."""

import http.client
import json
import socket
import threading
import time

from harness import lance_files
from harness.expected_rows import assert_rows
from harness.records import plain, with_payload


def listed(server, store: str) -> list[dict]:
    return server.api().list(store)


def test_a_request_in_flight_finishes_and_readiness_goes(server, api):
    api.create("s").expect(201)
    assert api.get("/readyz").status == 200
    body = json.dumps({"records": [plain("late")]}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as slow:
        slow.sendall(b"POST /api/v1/rollouts/s/records HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body[:10])
        # The handler has been admitted once the server has read its head; another exchange on this server comes after it.
        api.get("/api/v1/health").expect(200)
        time.sleep(0.3)
        server.terminate()
        deadline = time.monotonic() + 30
        while readiness(server) == 200:
            assert time.monotonic() < deadline, "still ready 30 s after SIGTERM"
            time.sleep(0.01)
        assert server.running, "the server did not wait for the request in flight"
        slow.sendall(body[10:])
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        assert answer.status == 201, answer.read()
        assert json.loads(answer.read())["ids"] == ["late"]
    assert server.wait() == 0, server.log_tail()
    server.start()
    assert_rows([plain("late")], listed(server, "s"))
    server.stop()


def readiness(server) -> int | None:
    try:
        return server.api(timeout=5).get("/readyz").status
    except (OSError, http.client.HTTPException):
        return None


def test_under_load_every_answered_row_is_in_a_generation(make_server):
    server = make_server().start()
    stores = ["a", "b"]
    for store in stores:
        server.api().create(store).expect(201)
    answered: dict[str, set[str]] = {store: set() for store in stores}
    sent: dict[str, set[str]] = {store: set() for store in stores}
    failures, enough = [], threading.Event()

    def writer(number: int) -> None:
        store, connection = stores[number % 2], server.api()
        for turn in range(100_000):
            record = plain(f"{number}-{turn}")
            sent[store].add(record["id"])
            try:
                answer = connection.append(store, [record])
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 201:
                answered[store].add(record["id"])
                if turn == 20:
                    enough.set()
            elif answer.status == 503:
                sent[store].discard(record["id"])
                return
            else:
                failures.append(answer)
                return

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    server.terminate()
    assert server.wait() == 0, server.log_tail()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[:3]

    for store in stores:
        directory = server.data_dir / f"{store}.rollout.lance"
        assert lance_files.rows_only_in_log(directory) == 0
        on_disk = {row["id"] for row in lance_files.read_merged(directory)}
        assert answered[store] <= on_disk <= sent[store]
    server.start()
    for store in stores:
        ids = [row["id"] for row in listed(server, store)]
        assert len(ids) == len(set(ids))
        assert answered[store] <= set(ids) <= sent[store]
    server.api().append("a", [plain("after")]).expect(201)
    server.stop()


def test_an_idle_keep_alive_connection_does_not_hold_the_stop(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle:
        idle.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(1000).startswith(b"HTTP/1.1 200")
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 60


def test_blobs_survive_a_stop(server, api):
    api.create("blobs").expect(201)
    payload = bytes(range(256)) * 8000
    api.append_multipart("blobs", [{k: v for k, v in with_payload("b", payload).items() if k != "binary_payload"}],
                         [(0, payload)]).expect(201)
    server.restart()
    assert server.api().blob("blobs", "b") == payload
    server.stop()


def test_sigterm_with_nothing_to_do(server):
    server.stop()
    server.start()
    server.stop()
