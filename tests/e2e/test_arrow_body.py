"""Records appended as an Arrow stream: the same rows as from JSON, or a 400 that says where and writes nothing."""

import base64
import datetime
import json

import pyarrow as pa
import pytest

from harness.expected_rows import COLUMNS, assert_rows, utc_microseconds
from harness.http_api import Answer, assert_envelope
from harness.records import EMPTY, FULL, MINIMAL, plain, with_payload

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
RELATIONSHIP = pa.struct([("target_id", pa.utf8()), ("relation", pa.utf8()), ("weight", pa.float32())])
TYPES = {
    **{name: pa.utf8() for name in COLUMNS},
    "sequence_order": pa.int32(), "num_input_tokens": pa.int32(), "num_output_tokens": pa.int32(), "payload_size": pa.int64(),
    "created_at": pa.timestamp("us", "UTC"), "include_in_training": pa.bool_(), "binary_payload": pa.large_binary(),
    "input_tokens": pa.list_(pa.int32()), "output_tokens": pa.list_(pa.int32()), "loss_mask": pa.list_(pa.int8()),
    **{name: pa.list_(pa.float32()) for name in ("output_logprobs", "input_logprobs", "ref_logprobs")},
    **{name: pa.float32() for name in ("advantage", "reward", "raw_reward", "score")},
    "relationships": pa.list_(RELATIONSHIP),
}
RECORDS = [FULL, MINIMAL, EMPTY, plain("p-1"), with_payload("blob", bytes(range(256)) * 10), plain("p-2", metadata=[1, "two"])]


def arrow_table(records: list[dict], **types) -> pa.Table:
    """The columns that these records use, in the wire types (or the ones given)."""
    rows = []
    for record in records:
        row = dict(record)
        if "created_at" in row:
            row["created_at"] = utc_microseconds(row["created_at"])
        if "metadata" in row:
            row["metadata"] = json.dumps(row["metadata"])
        rows.append(row)
    used = [name for name in COLUMNS if any(name in row for row in rows)]
    return pa.Table.from_pylist(rows, pa.schema([(name, types.get(name, TYPES[name])) for name in used]))


def stream(table: pa.Table, *, rows: int = 4, **options) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def append_arrow(api, name: str, body: pa.Table | bytes, *, flush: bool = False, **options) -> Answer:
    if isinstance(body, pa.Table):
        body = stream(body, **options)
    return api.request("POST", api.records_path(name) + ("?flush=true" if flush else ""), body, ARROW)


def as_json(records: list[dict]) -> list[dict]:
    return [{**record, "binary_payload": base64.b64encode(record["binary_payload"]).decode()} if "binary_payload" in record
            else record for record in records]


def without_given_times(rows: list[dict]) -> list[dict]:
    """The rows without the creation times that the server gave."""
    given = {record["id"] for record in RECORDS if "created_at" not in record}
    return [{key: value for key, value in row.items() if key != "created_at" or row["id"] not in given} for row in rows]


@pytest.fixture
def stores(module_api, store_name):
    pair = (f"{store_name}-json", f"{store_name}-arrow")
    for name in pair:
        module_api.create(name).expect(201)
    return pair


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"compression": "zstd"}, {"rows": 1}],
                         ids=["plain", "lz4", "zstd", "one row a batch"])
@pytest.mark.parametrize("flush", [False, True], ids=["unflushed", "flushed"])
def test_the_same_rows_come_back_as_from_json(module_api, stores, options, flush):
    from_json, from_arrow = stores
    answer = module_api.append(from_json, as_json(RECORDS), flush=flush).expect(201).json()
    arrow_answer = append_arrow(module_api, from_arrow, arrow_table(RECORDS), flush=flush, **options).expect(201).json()
    assert arrow_answer["ids"] == answer["ids"] and arrow_answer["count"] == answer["count"] == len(RECORDS)
    rows = module_api.list(from_arrow)
    assert_rows(RECORDS, rows)
    assert without_given_times(rows) == without_given_times(module_api.list(from_json))
    for record in RECORDS:
        assert module_api.blob(from_arrow, record["id"]) == module_api.blob(from_json, record["id"]) == record.get("binary_payload")


def test_every_text_form_is_taken(module_api, stores):
    _, name = stores
    records = [plain(f"row-{i}", role=("tool", "user")[i % 2], dataset="d") for i in range(6)]
    forms = [pa.utf8(), pa.large_utf8(), *(pa.dictionary(index, pa.utf8()) for index in (pa.int8(), pa.uint16(), pa.int32(), pa.int64())),
             pa.dictionary(pa.int16(), pa.large_utf8())]
    for form in forms:
        table = arrow_table(records, role=form, content=form, dataset=form, id=form)
        append_arrow(module_api, name, table).expect(201)
        assert_rows(records, module_api.list(name))


def test_a_time_without_a_zone_is_utc(module_api, stores):
    _, name = stores
    table = pa.table({"id": ["x"], "rollout_id": ["r"],
                      "created_at": pa.array([datetime.datetime(2024, 5, 6, 7, 8, 9)], pa.timestamp("us"))})
    append_arrow(module_api, name, table).expect(201)
    assert_rows([{"id": "x", "rollout_id": "r", "created_at": "2024-05-06T07:08:09Z"}], module_api.list(name))


def test_large_payloads_come_back(module_api, stores):
    _, name = stores
    records = [with_payload("large", b"\x00\xff" * (1 << 20)), plain("between"), with_payload("larger", b"x" * (3 << 20))]
    append_arrow(module_api, name, arrow_table(records)).expect(201)
    assert_rows(records, module_api.list(name))
    for record in (records[0], records[2]):
        assert module_api.blob(name, record["id"]) == record["binary_payload"]
    assert module_api.blob(name, "between") is None


def test_many_rows_of_many_batches(module_api, stores):
    _, name = stores
    records = [plain(f"row-{i}", sequence_order=i, output_tokens=list(range(i % 7))) for i in range(5000)]
    assert append_arrow(module_api, name, arrow_table(records), rows=333).expect(201).json()["count"] == 5000
    assert_rows(records, module_api.list(name, limit=10_000))


GOOD = arrow_table([plain("x"), plain("y"), plain("z")])


def changed(name: str, values: list, kind: pa.DataType) -> pa.Table:
    array = pa.array(values, kind)
    place = GOOD.schema.get_field_index(name)
    return GOOD.append_column(name, array) if place < 0 else GOOD.set_column(place, name, array)


# What is refused, and what the message must say.
REFUSED = {
    "unknown column": (changed("colour", [1, 2, 3], pa.int32()), ["'colour'"]),
    "no id": (GOOD.drop_columns("id"), ["'id'", "missing"]),
    "no rollout_id": (GOOD.drop_columns("rollout_id"), ["'rollout_id'", "missing"]),
    "null id": (changed("id", ["a", None, "b"], pa.utf8()), ["batch 0, row 1", "id"]),
    "null rollout_id": (changed("rollout_id", ["a", "b", None], pa.utf8()), ["batch 0, row 2", "rollout_id"]),
    "wrong type": (changed("reward", [1.0, 2.0, 3.0], pa.float64()), ["'reward'", "float", "double"]),
    "wrong item type": (changed("input_tokens", [[1], [2], [3]], pa.list_(pa.int64())), ["'input_tokens'", "int32", "int64"]),
    "number as text": (changed("content", [1, 2, 3], pa.int32()), ["'content'", "string", "int32"]),
    "null item": (changed("loss_mask", [[1], [1, None], []], pa.list_(pa.int8())), ["batch 0, row 1", "loss_mask[1]"]),
    "not a number": (changed("reward", [1, float("nan"), 2], pa.float32()), ["batch 0, row 1", "reward"]),
    "bad metadata": (changed("metadata", ["{}", "[", "1"], pa.utf8()), ["batch 0, row 1", "metadata"]),
    "relationship without a target": (
        changed("relationships", [[], [], [{"target_id": None, "relation": "x"}]], pa.list_(RELATIONSHIP)),
        ["batch 0, row 2", "relationships[0]", "target_id"]),
    "doubled column": (pa.Table.from_arrays([*GOOD.columns, GOOD["id"]], names=[*GOOD.column_names, "id"]), ["'id'"]),
    "no rows": (GOOD.slice(0, 0), ["no rows"]),
    "too many roles": (arrow_table([plain(f"r{i}", role=f"role-{i}") for i in range(129)]), ["128", "role"]),
}


@pytest.mark.parametrize(("table", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_says_where_and_writes_nothing(module_api, stores, table, words):
    _, name = stores
    message = assert_envelope(append_arrow(module_api, name, table, rows=200), 400)[1]
    assert all(word in message for word in words), message
    assert module_api.list(name) == []


def test_the_batch_is_named(module_api, stores):
    _, name = stores
    table = changed("metadata", ["1", "2", "{"], pa.utf8())
    message = assert_envelope(append_arrow(module_api, name, table, rows=1), 400)[1]
    assert "batch 2, row 0" in message, message


def test_what_is_no_whole_stream_is_refused(module_api, module_server, stores):
    _, name = stores
    body = stream(GOOD)
    bodies = [b"", b"{}", body[:-8], body[: len(body) // 2], body[:100], body + b"\0", body + body, b"ARROW1\0\0" + body]
    for at in range(0, len(body), 37):
        bodies.append(body[:at] + b"\xff\xff\xff\x7f" + body[at + 4:])
    for broken in bodies:
        answer = append_arrow(module_api, name, broken)
        if answer.status != 201:
            assert_envelope(answer, 400)
    for broken in bodies[:8]:
        assert_envelope(append_arrow(module_api, name, broken), 400)
    assert module_server.running, module_server.log_tail()


def test_a_body_that_grows_when_it_is_decompressed_is_refused_in_bounded_memory(module_server, module_api, stores):
    _, name = stores
    zeros = b"\0" * (600 << 20)
    table = pa.table({"id": ["a", "b"], "rollout_id": ["r", "r"], "binary_payload": pa.array([zeros, zeros], pa.large_binary())})
    body = stream(table, compression="zstd")
    del zeros, table
    assert len(body) < 1 << 20
    with module_server.watch_memory() as peak:
        message = assert_envelope(append_arrow(module_api, name, body), 400)[1]
    assert "bytes of memory" in message, message
    assert peak.rise < 256 << 20, peak.rise
    assert module_api.list(name) == []
