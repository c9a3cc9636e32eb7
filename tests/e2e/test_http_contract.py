"""The conformance checklist of the wire contract by raw HTTP. SARISSA_BASE_URL points it at a server that runs already."""

import json
import os
import re
import urllib.parse

import httpx
import pytest

from harness.expected_rows import ALWAYS_PRESENT, assert_rows
from harness.http_api import multipart
from harness.records import EMPTY, FULL, MINIMAL, plain, with_payload, without_payload


@pytest.fixture(scope="module")
def base_url(request):
    return os.environ.get("SARISSA_BASE_URL") or request.getfixturevalue("module_server").url


@pytest.fixture(scope="module")
def client(base_url):
    with httpx.Client(base_url=base_url.rstrip("/") + "/api/v1", timeout=60) as client:
        yield client


@pytest.fixture
def store(client, store_name):
    name = f"{store_name[:90]}-{os.urandom(4).hex()}"
    assert client.post("/rollouts", json={"name": name}).status_code == 201
    yield name
    client.delete(f"/rollouts/{name}")


def envelope(response: httpx.Response, status: int, code: str | None = None) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"].split(";")[0] == "application/json"
    error = response.json()["error"]
    assert code is None or error["code"] == code, error
    return error["message"]


def append(client, store: str, records: list[dict], **params) -> dict:
    response = client.post(f"/rollouts/{store}/records", json={"records": records}, params=params)
    assert response.status_code == 201, response.text
    return response.json()


def rows(client, store: str, **params) -> list[dict]:
    response = client.get(f"/rollouts/{store}/records", params=params)
    assert response.status_code == 200, response.text
    return response.json()["records"]


def test_health(client):
    response = client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_head_is_answered_by_every_get_route(client, store):
    for path in ("/health", "/rollouts", f"/rollouts/{store}", f"/rollouts/{store}/records"):
        response = client.head(path)
        assert (response.status_code, response.content) == (200, b"")


def test_the_life_of_a_store(client, store_name):
    name = f"life.{store_name[:80]}-{os.urandom(4).hex()}_X"
    envelope(client.get(f"/rollouts/{name}"), 404, "NOT_FOUND")
    created = client.post("/rollouts", json={"name": name, "storage_options": None, "unknown": [1]})
    assert created.status_code == 201
    info = created.json()
    assert info["name"] == name and info["uri"].endswith(f"/{name}.rollout.lance")
    assert isinstance(info["version"], int) and info["version"] >= 0
    assert client.get(f"/rollouts/{name}").json() == info
    listed = {entry["name"]: entry["uri"] for entry in client.get("/rollouts").json()["stores"]}
    assert listed[name] == info["uri"]
    envelope(client.post("/rollouts", json={"name": name}), 409, "ALREADY_EXISTS")
    append(client, name, [plain("a")])
    deleted = client.delete(f"/rollouts/{name}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    envelope(client.delete(f"/rollouts/{name}"), 404, "NOT_FOUND")
    envelope(client.get(f"/rollouts/{name}/records"), 404, "NOT_FOUND")
    assert name not in [entry["name"] for entry in client.get("/rollouts").json()["stores"]]
    assert client.post("/rollouts", json={"name": name}).status_code == 201
    assert rows(client, name) == [], "a store that was made again is empty"
    client.delete(f"/rollouts/{name}")


@pytest.mark.parametrize("name", ["a", "_", "9", "A.b_c-d", "x" * 128, "_x", "a..b", "registry", "UPPER.rollout.lance"])
def test_legal_names(client, name):
    assert client.post("/rollouts", json={"name": name}).status_code == 201
    append(client, name, [plain("a")])
    assert len(rows(client, name)) == 1
    assert client.delete(f"/rollouts/{name}").status_code == 204


def test_a_receipt_has_version_ids_and_count(client, store):
    receipt = append(client, store, [plain("b"), plain("a"), plain("b")])
    assert {key: receipt[key] for key in ("ids", "count")} == {"ids": ["b", "a", "b"], "count": 3}
    assert isinstance(receipt["version"], int) and receipt["version"] == client.get(f"/rollouts/{store}").json()["version"]


def test_rows_have_the_mandatory_keys_and_no_nulls(client, store):
    append(client, store, [FULL, MINIMAL, EMPTY])
    found = rows(client, store)
    assert_rows([FULL, MINIMAL, EMPTY], found)
    for row in found:
        assert ALWAYS_PRESENT <= row.keys()
        assert None not in row.values()
        assert row["created_at"].endswith("Z")
        assert row.get("relationships") != []
    assert set(rows(client, store)[1]) == ALWAYS_PRESENT


def test_explicit_nulls_are_absent_fields(client, store):
    nullable = set(FULL) - {"id", "rollout_id", "sequence_order", "role", "content_type", "relationships"}
    append(client, store, [{"id": "a", "rollout_id": "r", **{key: None for key in nullable}, "binary_payload": None, "unknown": None}])
    assert_rows([{"id": "a", "rollout_id": "r"}], rows(client, store))


def test_created_at_is_taken_once_a_request(client, store):
    append(client, store, [plain(f"{number}") for number in range(100)])
    assert len({row["created_at"] for row in rows(client, store)}) == 1


@pytest.mark.parametrize(("sent", "text"), [
    (0.1, "0.1"), (1, "1.0"), (123456789, "123456790.0"), (-0.0, "-0.0"), (0.30000001192092896, "0.3"), (1 / 3, "0.33333334"),
    (16777216, "16777216.0")])
def test_float32_is_printed_as_the_shortest_text(client, store, sent, text):
    append(client, store, [plain("a", reward=sent)])
    raw = client.get(f"/rollouts/{store}/records").text
    assert re.search(r'"reward"\s*:\s*' + re.escape(text) + r"\s*[,}]", raw), raw


def test_get_of_a_row(client, store):
    append(client, store, [FULL, MINIMAL])
    assert_rows([FULL], [client.get(f"/rollouts/{store}/records/full").json()["record"]])
    absent = client.get(f"/rollouts/{store}/records/absent")
    assert (absent.status_code, absent.json()) == (200, {"record": None})
    envelope(client.get("/rollouts/no-such-store/records/full"), 404, "NOT_FOUND")


def test_get_has_every_column_that_list_has(client, store):
    append(client, store, [FULL])
    assert client.get(f"/rollouts/{store}/records/full").json()["record"] == rows(client, store)[0]


def test_blobs(client, store):
    payload = bytes(range(256)) * 40
    records = [with_payload("blob", payload), with_payload("zero", b""), plain("none")]
    body, content_type = multipart([without_payload(record) for record in records], [(1, b""), (0, payload)])
    sent = client.post(f"/rollouts/{store}/records", content=body, headers={"content-type": content_type})
    assert sent.status_code == 201, sent.text
    for name, expected in (("blob", payload), ("zero", b"")):
        answer = client.get(f"/rollouts/{store}/records/{name}/blob")
        assert answer.status_code == 200 and answer.content == expected
        assert answer.headers["content-type"] == "application/octet-stream"
        assert int(answer.headers["content-length"]) == len(expected)
    envelope(client.get(f"/rollouts/{store}/records/none/blob"), 404, "NOT_FOUND")
    envelope(client.get(f"/rollouts/{store}/records/absent/blob"), 404, "NOT_FOUND")
    envelope(client.get("/rollouts/no-such-store/records/blob/blob"), 404, "NOT_FOUND")


def test_inline_base64_and_a_size_that_json_does_not_check(client, store):
    append(client, store, [{"id": "a", "rollout_id": "r", "binary_payload": "AP/+YWJj", "payload_size": 99},
                           {"id": "b", "rollout_id": "r", "payload_size": 5}, {"id": "c", "rollout_id": "r", "binary_payload": ""}])
    assert client.get(f"/rollouts/{store}/records/a/blob").content == b"\x00\xff\xfeabc"
    assert client.get(f"/rollouts/{store}/records/c/blob").content == b""
    envelope(client.get(f"/rollouts/{store}/records/b/blob"), 404)
    assert [row.get("payload_size") for row in rows(client, store)] == [99, 5, None]


def test_a_part_overrides_inline_bytes(client, store):
    body, content_type = multipart([{"id": "a", "rollout_id": "r", "binary_payload": "YQ=="}], [(0, b"part")])
    assert client.post(f"/rollouts/{store}/records", content=body, headers={"content-type": content_type}).status_code == 201
    assert client.get(f"/rollouts/{store}/records/a/blob").content == b"part"


def test_chunked_bodies(client, store):
    body = json.dumps({"records": [plain("a")]}).encode()
    sent = client.post(f"/rollouts/{store}/records", content=iter([body[:7], body[7:]]), headers={"content-type": "application/json"})
    assert sent.status_code == 201, sent.text
    body, content_type = multipart([plain("b")], [(0, b"x" * 100_000)])
    sent = client.post(f"/rollouts/{store}/records", content=(body[i:i + 999] for i in range(0, len(body), 999)),
                       headers={"content-type": content_type})
    assert sent.status_code == 201, sent.text
    assert client.get(f"/rollouts/{store}/records/b/blob").content == b"x" * 100_000


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "Application/Json;x=y"])
def test_content_type_in_any_case_and_with_parameters(client, store, content_type):
    body = json.dumps({"records": [plain("a")]}).encode()
    assert client.post(f"/rollouts/{store}/records", content=body, headers={"content-type": content_type}).status_code == 201


@pytest.mark.parametrize("query", ["flush", "flush=true", "flush=TRUE", "flush=1", "flush=false", "flush=0", "flush=yes", "x=1&flush=true", "other=1"])
def test_flush_is_accepted_on_append(client, store, query):
    sent = client.post(f"/rollouts/{store}/records?{query}", json={"records": [plain("a")]})
    assert sent.status_code == 201, sent.text
    assert_rows([plain("a")], rows(client, store))


def test_flush_route(client, store):
    append(client, store, [plain("a")])
    for _ in range(2):
        assert client.post(f"/rollouts/{store}/flush").is_success
    assert_rows([plain("a")], rows(client, store))
    envelope(client.post("/rollouts/no-such-store/flush"), 404, "NOT_FOUND")


def test_unknown_query_parameters_are_ignored(client, store):
    append(client, store, [plain("a")])
    assert len(rows(client, store, unknown="x", limit="1")) == 1


def test_filters_are_form_encoded(client, store):
    append(client, store, [plain("a", rollout_id="with space + plus & more"), plain("b")])
    filters = urllib.parse.quote_plus(json.dumps({"rollout_id": "with space + plus & more"}))
    assert "+" in filters
    response = client.get(f"/rollouts/{store}/records?filters={filters}")
    assert [row["id"] for row in response.json()["records"]] == ["a"]


def test_a_bad_filter_or_body_on_a_missing_store_is_400_before_404(client):
    envelope(client.get("/rollouts/no-such-store/records", params={"filters": "x"}), 400, "INVALID_REQUEST")
    envelope(client.post("/rollouts/no-such-store/records", json={"records": []}), 400, "INVALID_REQUEST")
    envelope(client.post("/rollouts/no-such-store/records", json={"records": [plain("a")]}), 404, "NOT_FOUND")
    envelope(client.get("/rollouts/no-such-store/records"), 404, "NOT_FOUND")


def test_the_newest_row_of_an_id_is_the_same_for_list_get_and_blob(client, store):
    first = {"id": "a", "rollout_id": "r", "binary_payload": "YQ==", "reward": 1.0}
    second = {"id": "a", "rollout_id": "r", "reward": 2.0}
    append(client, store, [first, plain("b")], flush="true")
    append(client, store, [second])
    for _ in range(2):
        assert [row["id"] for row in rows(client, store)] == ["b", "a"]
        assert rows(client, store)[1]["reward"] == 2.0
        assert client.get(f"/rollouts/{store}/records/a").json()["record"]["reward"] == 2.0
        envelope(client.get(f"/rollouts/{store}/records/a/blob"), 404)
        client.post(f"/rollouts/{store}/flush")


def test_path_segments_are_percent_decoded(client, store):
    append(client, store, [plain("a/b c?d#e%ü")])
    quoted = urllib.parse.quote("a/b c?d#e%ü", safe="")
    assert client.get(f"/rollouts/{store}/records/{quoted}").json()["record"]["id"] == "a/b c?d#e%ü"
    encoded_store = "".join(f"%{byte:02x}" for byte in store.encode())
    assert len(client.get(f"/rollouts/{encoded_store}/records").json()["records"]) == 1


def test_keep_alive(client, base_url, store):
    with httpx.Client(base_url=base_url, limits=httpx.Limits(max_connections=1)) as one:
        for _ in range(20):
            assert one.get("/api/v1/health").headers.get("connection", "keep-alive").lower() != "close"


def test_connection_close_is_honoured(base_url):
    response = httpx.get(f"{base_url}/api/v1/health", headers={"connection": "close"})
    assert response.status_code == 200


def test_metrics(client, base_url, store):
    append(client, store, [plain("a"), plain("b")])
    response = httpx.get(f"{base_url}/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    for series in ("http_requests_total", "http_request_duration_seconds", "rollout_appends_total", "rollout_records_appended_total"):
        assert re.search(rf"^{series}\w*\{{?", response.text, re.MULTILINE), f"{series} is missing"
    assert re.search(r'^http_requests_total\{[^}]*path="/api/v1/rollouts/\{name\}/records"', response.text, re.MULTILINE)
    assert store not in response.text, "series carry route templates, not names"
