"""The unmodified Python client, sync: every method, and every argument whose handling reaches the wire."""

import base64
import json
import threading
import uuid

import pytest
from lance_context import RolloutStore

from harness.expected_rows import assert_rows
from harness.records import EMPTY, FULL, MINIMAL, plain, with_payload


@pytest.fixture
def store(module_server, store_name):
    return RolloutStore.connect_or_create(module_server.url, store_name)


def test_connect_to_an_absent_store_is_an_api_error(module_server):
    with pytest.raises(RuntimeError, match=r"^API error \(404\b.*\): \[NOT_FOUND\] "):
        RolloutStore.connect(module_server.url, "no-such-store")


def test_connect_with_a_bad_name_is_an_api_error(module_server):
    with pytest.raises(RuntimeError, match=r"^API error \(400\b.*\): \[INVALID_REQUEST\] "):
        RolloutStore.connect(module_server.url, ".hidden")


def test_connect_or_create_creates_once_and_connects_afterwards(module_server, store_name):
    first = RolloutStore.connect_or_create(module_server.url, store_name)
    first.add([plain("a")])
    second = RolloutStore.connect_or_create(module_server.url, store_name)
    third = RolloutStore.connect(module_server.url + "/", store_name)
    assert_rows([plain("a")], second.list())
    assert_rows([plain("a")], third.list())


def test_storage_options_are_accepted(module_server, store_name):
    store = RolloutStore.connect_or_create(module_server.url, store_name, storage_options={"region": "nowhere"})
    assert store.list() == []


def test_version_is_a_number_and_shows_in_the_text(store):
    assert isinstance(store.version(), int)
    assert store.version() >= 1
    assert repr(store) == f"RolloutStore(version={store.version()})"


def test_add_answers_ids_in_order_with_duplicates(store):
    receipt = store.add([plain("a"), plain("b"), plain("a")])
    assert receipt == {"version": store.version(), "ids": ["a", "b", "a"], "count": 3}


def test_add_takes_a_mapping_a_list_and_a_generator(store):
    assert store.add(plain("one"))["ids"] == ["one"]
    assert store.add((plain(f"g{i}") for i in range(3)))["ids"] == ["g0", "g1", "g2"]
    assert_rows([plain("one"), plain("g0"), plain("g1"), plain("g2")], store.list())


def test_add_one_takes_fields(store):
    assert store.add_one(**FULL)["ids"] == ["full"]
    assert_rows([FULL], store.list())


def test_an_absent_id_is_minted(store):
    [record_id] = store.add_one(rollout_id="r")["ids"]
    assert str(uuid.UUID(record_id)) == record_id
    assert store.get(record_id)["rollout_id"] == "r"


def test_rows_are_visible_at_once_and_flush_changes_nothing(store):
    store.add([FULL, MINIMAL, EMPTY])
    assert_rows([FULL, MINIMAL, EMPTY], store.list())
    assert store.flush() is None
    assert_rows([FULL, MINIMAL, EMPTY], store.list())


def test_unknown_keys_and_explicit_none_are_dropped(store):
    store.add([{**plain("a"), "no_such_field": 1, "dataset": None, "reward": None, "metadata": None}])
    assert_rows([{"id": "a", "rollout_id": "r-plain", "content": "content of a"}], store.list())


def test_list_pages(store):
    records = [plain(f"{i:02}") for i in range(10)]
    store.add(records[:4])
    store.add(records[4:])
    assert_rows(records, store.list())
    assert_rows(records[:3], store.list(limit=3))
    assert_rows(records[7:], store.list(offset=7))
    assert_rows(records[2:5], store.list(limit=3, offset=2))
    assert store.list(limit=0) == []
    assert store.list(offset=10) == []
    assert store.list(limit=5, offset=1000) == []


FILTERED = [
    plain("a", rollout_id="r1", problem_id="p1", policy_version="v1", role="user", include_in_training=True, dataset="d1"),
    plain("b", rollout_id="r1", problem_id="p2", policy_version="v2", role="assistant", artifact_type="image", dataset="d 2&+=%"),
    plain("c", rollout_id="r2", problem_id="p1", role="tool", include_in_training=False, content_type="text/html"),
    plain("d", rollout_id="r/ü 世界", problem_id="p3"),
]


@pytest.mark.parametrize(("filters", "ids"), [
    ({"rollout_id": "r1"}, "ab"),
    ({"rollout_id": "r/ü 世界"}, "d"),
    ({"problem_id": "p1"}, "ac"),
    ({"policy_version": "v2"}, "b"),
    ({"role": "assistant"}, "bd"),
    ({"artifact_type": "image"}, "b"),
    ({"dataset": "d 2&+=%"}, "b"),
    ({"content_type": "text/html"}, "c"),
    ({"include_in_training": True}, "a"),
    ({"include_in_training": False}, "c"),
    ({"rollout_id": "r1", "problem_id": "p2"}, "b"),
    ({"rollout_id": "r1", "role": "tool"}, ""),
    ({"rollout_id": ""}, "abcd"),
    ({"rollout_id": "", "role": "tool"}, "c"),
    ({}, "abcd"),
    (None, "abcd"),
], ids=repr)
def test_filters_match_exactly_and_all_of_them(module_server, filters, ids):
    store = RolloutStore.connect_or_create(module_server.url, "filtered")
    if not store.list(limit=1):
        store.add(FILTERED)
    assert "".join(row["id"] for row in store.list(filters=filters)) == ids


def test_paging_counts_rows_that_pass_the_filter(store):
    store.add([plain(f"{i}", role="user" if i % 2 else "tool") for i in range(10)])
    assert [row["id"] for row in store.list(limit=2, offset=1, filters={"role": "user"})] == ["3", "5"]


@pytest.mark.parametrize("filters", [{"id": "x"}, {"reward": 1.0}, {"role": 1}, {"role": None}, {"include_in_training": "true"},
                                     {"role": ["user"]}], ids=repr)
def test_a_bad_filter_is_an_error_that_names_the_key(store, filters):
    with pytest.raises(RuntimeError, match=next(iter(filters))):
        store.list(filters=filters)


def test_get_trajectory_sorts_by_sequence_and_id(store):
    store.add([plain("z", rollout_id="t", sequence_order=2), plain("b", rollout_id="t", sequence_order=1),
               plain("other", rollout_id="u"), plain("a", rollout_id="t", sequence_order=2),
               plain("neg", rollout_id="t", sequence_order=-1)])
    assert [row["id"] for row in store.get_trajectory("t")] == ["neg", "b", "a", "z"]
    assert store.get_trajectory("nobody") == []
    with pytest.raises(RuntimeError):
        store.get_trajectory("")


def test_get_answers_the_row_or_none(store):
    store.add([FULL, plain("with space"), plain("ümlaut-世界")])
    assert_rows([FULL], [store.get("full")])
    assert_rows([plain("with space")], [store.get("with space")])
    assert_rows([plain("ümlaut-世界")], [store.get("ümlaut-世界")])
    assert store.get("absent") is None


def test_the_newest_row_of_an_id_wins_everywhere(store):
    store.add([with_payload("a", b"old", reward=1.0)])
    store.add([plain("b")])
    newest = with_payload("a", b"newer", reward=2.0)
    store.add([newest])
    assert_rows([plain("b"), newest], store.list())
    assert_rows([newest], [store.get("a")])
    assert store.get_blob("a") == b"newer"


BLOBS = [with_payload("bytes", bytes(range(256)) * 100), with_payload("array", bytearray(b"mutable")),
         with_payload("crlf", b"\r\n--boundary\r\n\r\n--\r\n"), with_payload("zero", b""), plain("none")]


def test_blobs_travel_as_multipart_and_come_back_as_bytes(store):
    assert store.add(BLOBS)["count"] == len(BLOBS)
    for record in BLOBS:
        wanted = record.get("binary_payload")
        assert store.get_blob(record["id"]) == (None if wanted is None else bytes(wanted))
    assert store.get_blob("absent") is None
    assert all("binary_payload" not in row for row in store.list())
    assert_rows(BLOBS, store.list())


def test_a_large_blob_survives(store):
    payload = bytes(range(251)) * 20_000
    store.add([plain("before"), with_payload("large", payload), with_payload("small", b"s"), plain("after")])
    assert store.get_blob("large") == payload
    assert store.get_blob("small") == b"s"


def test_base64_text_is_a_payload(store):
    store.add([{"id": "a", "rollout_id": "r", "binary_payload": base64.b64encode(b"\x00\xffdata").decode()}])
    assert store.get_blob("a") == b"\x00\xffdata"
    with pytest.raises(RuntimeError):
        store.add([{"id": "b", "rollout_id": "r", "binary_payload": "not base64!"}])
    assert store.get("b") is None


def test_payload_size_must_match_the_bytes_beside_it(store):
    with pytest.raises(RuntimeError, match="payload_size"):
        store.add([{**with_payload("a", b"four"), "payload_size": 5}])
    assert store.list() == []


def test_what_the_client_refuses_leaves_no_row(store):
    for bad in ({"id": "a"}, {**plain("a"), "sequence_order": 2**31}, {**plain("a"), "loss_mask": [128]},
                {**plain("a"), "reward": "high"}, {**plain("a"), "role": None}, {**plain("a"), "reward": float("nan")}):
        with pytest.raises((RuntimeError, TypeError, OverflowError)):
            store.add([plain("good"), bad])
    with pytest.raises(ValueError):
        store.add([])
    assert store.list() == []


def test_a_number_beyond_float32_is_sent_as_null(store):
    store.add([{"id": "a", "rollout_id": "r", "reward": 1e300}])
    assert_rows([{"id": "a", "rollout_id": "r"}], store.list())


def test_times_are_kept_to_the_microsecond_in_utc(store):
    times = {"utc": "2024-01-02T03:04:05Z", "milli": "2024-01-02T03:04:05.678Z", "micro": "2024-01-02T03:04:05.000001Z",
             "offset": "2024-01-02T03:04:05+05:30", "space": "2024-01-02 03:04:05-08:00", "nano": "2024-01-02T03:04:05.123456789Z",
             "old": "1823-05-06T07:08:09.5Z"}
    store.add([plain(name, created_at=time) for name, time in times.items()])
    assert_rows([plain(name, created_at=time) for name, time in times.items()], store.list())
    rows = {row["id"]: row["created_at"] for row in store.list()}
    assert rows["utc"] == "2024-01-02T03:04:05Z"
    assert rows["offset"] == "2024-01-01T21:34:05Z"
    assert rows["nano"] == "2024-01-02T03:04:05.123456Z"


def test_metadata_is_any_json_value(store):
    values = [{"b": 1, "a": {"c": []}}, [1, "two", None], "text", 5, 1.5, True, {"deep": json.loads("[" * 50 + "]" * 50)},
              {"int64": -(2**63), "uint64": 2**64 - 1, "float": 1e-7, "unicode": "\u0000\U0001F680"}]
    records = [plain(f"m{i}", metadata=value) for i, value in enumerate(values)]
    store.add(records)
    assert_rows(records, store.list())


def test_errors_of_a_vanished_store(module_server, store_name, module_api):
    store = RolloutStore.connect_or_create(module_server.url, store_name)
    store.add([with_payload("a", b"x")])
    module_api.delete(store_name).expect(204)
    for call in (lambda: store.list(), lambda: store.get("a"), lambda: store.add([plain("b")]), lambda: store.get_trajectory("r")):
        with pytest.raises(RuntimeError) as error:
            call()
        assert store_name in str(error.value), "the bare message of the server, which names the store"
    assert store.get_blob("a") is None, "the client reads every 404 as no payload"


def test_checkout_of_the_current_version_and_of_a_missing_one(module_server, store_name, module_api):
    store = RolloutStore.connect_or_create(module_server.url, store_name)
    version = store.version()
    store.add([plain("a")])
    with pytest.raises(RuntimeError):
        store.checkout(version + 1000)
    assert store.version() == version
    store.checkout(version)
    assert store.version() == version
    # A pin shows the base version without rows that are not merged, to every client, and refuses no append.
    assert store.list() == []
    assert store.get("a") is None
    store.add([plain("b")])
    assert store.list() == []
    store.checkout(1)
    assert RolloutStore.connect(module_server.url, store_name).version() == 1
    module_api.request("POST", f"/api/v1/rollouts/{store_name}/checkout", b'{"version": null}',
                       {"Content-Type": "application/json"}).expect(200)
    assert_rows([plain("a"), plain("b")], store.list())


def test_handles_of_their_own_add_at_the_same_time(module_server, store_name):
    RolloutStore.connect_or_create(module_server.url, store_name)
    failures = []

    def writer(number: int) -> None:
        try:
            handle = RolloutStore.connect(module_server.url, store_name)
            for turn in range(20):
                handle.add([plain(f"{number}-{turn}-{i}") for i in range(3)])
                assert handle.get(f"{number}-{turn}-0"), "an acknowledged row is visible to the next read"
        except Exception as error:  # noqa: BLE001 - reported by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    rows = RolloutStore.connect(module_server.url, store_name).list()
    assert_rows([plain(f"{n}-{t}-{i}") for n in range(8) for t in range(20) for i in range(3)], rows, ordered=False)
