"""Resident memory does not follow the size of a store or of a blob: each operation raises it by less than 100 MB."""

import base64
import hashlib
import http.client
import os
import time

import counts
import pytest

LIMIT = 100_000_000
ROW_BYTES = 1_000_000
ROWS_PER_APPEND = 4
BLOB_BYTES = 100_000_000
CHUNK = 1 << 20


def assert_small_rise(what: str, peak) -> None:
    print(f"{what}: {peak}")
    assert peak.rise < LIMIT, f"{what}: {peak}"


def fill(server, store: str, total: int) -> int:
    """Appends rows of about 1 MB of text that does not compress until the store holds `total` bytes; returns their number."""
    api = server.api(timeout=600)
    block = base64.b64encode(os.urandom(ROW_BYTES)).decode()[:ROW_BYTES]
    rows = 0
    while rows * ROW_BYTES < total:
        records = []
        for _ in range(ROWS_PER_APPEND):
            # Rotated, so that no two rows are equal and no page compresses to nothing.
            turn = rows * 7919 % ROW_BYTES
            records.append(b'{"id":"%d","rollout_id":"r","content":"%s%s"}' % (rows, block[turn:].encode(), block[:turn].encode()))
            rows += 1
        body = b'{"records":[' + b",".join(records) + b"]}"
        deadline = time.monotonic() + 300
        while True:
            answer = api.append(store, body)
            if answer.status != 503:
                break
            # Over the memory budget until a flush has landed: the contract is to come back.
            assert time.monotonic() < deadline, f"503 for 300 s: {answer.body!r}"
            time.sleep(float(answer.headers.get("retry-after", "1")))
        answer.expect(201)
    return rows


@pytest.fixture(scope="module")
def big_store(module_server):
    """A store of 1 GB, unflushed as the server left it."""
    module_server.api().create("big").expect(201)
    return fill(module_server, "big", counts.MEMORY_STORE_BYTES)


def list_one(server) -> None:
    [row] = server.api().list("big", limit=1)
    assert row["id"] == "0" and len(row["content"]) == ROW_BYTES


def test_list_limit_1_of_a_large_store(module_server, big_store):
    with module_server.watch_memory() as peak:
        list_one(module_server)
    assert_small_rise("list limit=1 after writing", peak)


def test_list_limit_1_at_the_far_end_of_a_large_store(module_server, big_store):
    with module_server.watch_memory() as peak:
        [row] = module_server.api().list("big", limit=1, offset=big_store - 1)
    assert row["id"] == str(big_store - 1)
    assert_small_rise("list limit=1 at the last row", peak)


def test_list_limit_1_of_a_large_store_after_a_flush(module_server, big_store):
    assert 200 <= module_server.api(timeout=600).flush("big").status < 300
    with module_server.watch_memory() as peak:
        list_one(module_server)
    assert_small_rise("list limit=1 after a flush", peak)


def test_list_limit_1_of_a_large_store_after_a_restart(module_server, big_store):
    module_server.restart()
    with module_server.watch_memory() as peak:
        list_one(module_server)
    assert_small_rise("list limit=1 after a restart", peak)


def test_get_of_a_large_store_after_a_restart(module_server, big_store):
    module_server.restart()
    with module_server.watch_memory() as peak:
        row = module_server.api().record("big", str(big_store // 2))
    assert len(row["content"]) == ROW_BYTES
    assert_small_rise("get after a restart", peak)


class BlobStream:
    """The bytes of a blob, made as they are needed; the same every time."""

    def __init__(self, total: int):
        self._left = total
        self._block = hashlib.shake_256(b"blob").digest(CHUNK)

    def __iter__(self):
        while self._left:
            block = self._block[:min(self._left, CHUNK)]
            self._left -= len(block)
            yield block


def digest(blocks) -> str:
    value = hashlib.sha256()
    for block in blocks:
        value.update(block)
    return value.hexdigest()


def upload(server, store: str, record_id: str, total: int) -> None:
    head = (b'--edge\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
            b'{"records":[{"id":"%s","rollout_id":"r","payload_size":%d}]}\r\n'
            b'--edge\r\nContent-Disposition: form-data; name="0"\r\nContent-Type: application/octet-stream\r\n\r\n'
            % (record_id.encode(), total))
    tail = b"\r\n--edge--\r\n"

    def body():
        yield head
        yield from BlobStream(total)
        yield tail

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("POST", f"/api/v1/rollouts/{store}/records", body(), {
        "Content-Type": "multipart/form-data; boundary=edge", "Content-Length": str(len(head) + total + len(tail))})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()


def download_digest(server, store: str, record_id: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("GET", f"/api/v1/rollouts/{store}/records/{record_id}/blob")
    answer = connection.getresponse()
    assert answer.status == 200
    length = 0

    def blocks():
        nonlocal length
        while block := answer.read(CHUNK):
            length += len(block)
            yield block

    found = digest(blocks())
    connection.close()
    return length, found


@pytest.fixture(scope="module")
def blob_server(tmp_path_factory):
    from harness.server import Server

    server = Server(tmp_path_factory.mktemp("blob") / "data").start()
    server.api().create("blobs").expect(201)
    upload(server, "blobs", "warm-up", 1_000_000)
    yield server
    server.discard()


WANTED = (BLOB_BYTES, digest(BlobStream(BLOB_BYTES)))


def test_upload_of_a_100_mb_blob(blob_server):
    with blob_server.watch_memory() as peak:
        upload(blob_server, "blobs", "large", BLOB_BYTES)
    assert_small_rise("upload of 100 MB", peak)


def test_download_of_a_100_mb_blob_from_the_log(blob_server):
    with blob_server.watch_memory() as peak:
        found = download_digest(blob_server, "blobs", "large")
    assert found == WANTED
    assert_small_rise("download of 100 MB before a flush", peak)


def test_flush_of_a_100_mb_blob(blob_server):
    with blob_server.watch_memory() as peak:
        assert 200 <= blob_server.api(timeout=300).flush("blobs").status < 300
    assert_small_rise("flush of 100 MB", peak)


def test_download_of_a_100_mb_blob_from_a_generation(blob_server):
    with blob_server.watch_memory() as peak:
        found = download_digest(blob_server, "blobs", "large")
    assert found == WANTED
    assert_small_rise("download of 100 MB after a flush", peak)


def test_download_of_a_100_mb_blob_after_kill9(blob_server):
    upload(blob_server, "blobs", "larger", BLOB_BYTES)
    blob_server.kill9()
    blob_server.start()
    with blob_server.watch_memory() as peak:
        found = download_digest(blob_server, "blobs", "larger")
    assert found == WANTED
    assert_small_rise("replay and download of 100 MB", peak)
    blob_server.stop()
