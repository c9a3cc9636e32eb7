"""What a record must look like when it is read back, derived from the contract and from nothing of the server."""

import datetime
import json
import re
from typing import Any, Mapping

import numpy

FLOATS = {"advantage", "reward", "raw_reward", "score"}
FLOAT_LISTS = {"output_logprobs", "input_logprobs", "ref_logprobs"}
STRINGS = {
    "id", "rollout_id", "problem_id", "dataset", "role", "content", "content_type", "model_input_string",
    "model_output_string", "rationale", "problem_text", "user_metadata", "grader_id", "exclude_reason", "policy_version",
    "payload_checksum", "artifact_type",
}
INTEGERS = {"sequence_order", "num_input_tokens", "num_output_tokens", "payload_size"}
INTEGER_LISTS = {"input_tokens", "output_tokens", "loss_mask"}
ALWAYS_PRESENT = {"id", "rollout_id", "problem_id", "sequence_order", "role", "created_at", "content_type"}
COLUMNS = (
    "id rollout_id problem_id dataset sequence_order role created_at content content_type model_input_string "
    "model_output_string rationale problem_text user_metadata input_tokens output_tokens num_input_tokens "
    "num_output_tokens output_logprobs input_logprobs ref_logprobs loss_mask advantage reward raw_reward grader_id score "
    "include_in_training exclude_reason policy_version relationships binary_payload payload_size payload_checksum "
    "artifact_type metadata").split()

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}|\.\d{6})?Z")
# Stands for a creation time that the server gave.
ANY_TIME = object()


def float32(value: float) -> float:
    """The double whose text is the shortest that names the float32 nearest to `value`."""
    return float(str(numpy.float32(value)))


def utc_microseconds(text: str) -> datetime.datetime:
    """An RFC 3339 time with a zone as UTC, digits past the microsecond cut off."""
    text = text.strip().replace("Z", "+00:00").replace("z", "+00:00").replace("t", "T")
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    text = re.sub(r"\.(\d{1,5})(?=[+-])", lambda match: "." + match.group(1).ljust(6, "0"), text)
    return datetime.datetime.fromisoformat(text).astimezone(datetime.timezone.utc)


def expected_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """The row that list and get answer for an appended record."""
    unknown = set(record) - set(COLUMNS)
    assert not unknown, f"a test record has no field {unknown}"
    row = {key: value for key, value in record.items() if value is not None and key != "binary_payload"}
    row.setdefault("problem_id", row["rollout_id"])
    row.setdefault("sequence_order", 0)
    row.setdefault("role", "assistant")
    row.setdefault("content_type", "text/plain")
    row["created_at"] = utc_microseconds(row["created_at"]) if "created_at" in row else ANY_TIME
    for key in FLOATS & row.keys():
        row[key] = float32(row[key])
    for key in FLOAT_LISTS & row.keys():
        row[key] = [float32(value) for value in row[key]]
    links = [
        {"target_id": link["target_id"], "relation": link["relation"],
         **({"weight": float32(link["weight"])} if link.get("weight") is not None else {})}
        for link in row.pop("relationships", [])
    ]
    if links:
        row["relationships"] = links
    return row


def difference(expected: Any, found: Any, where: str = "") -> str | None:
    """Says where two JSON values differ, or None. 1, 1.0 and True are three values, as are 0.0 and -0.0."""
    if type(expected) is not type(found):
        return f"{where}: expected {expected!r:.200}, found {found!r:.200}"
    if isinstance(expected, dict):
        for key in expected.keys() | found.keys():
            if key not in found:
                return f"{where}.{key}: missing, expected {expected[key]!r:.200}"
            if key not in expected:
                return f"{where}.{key}: unexpected {found[key]!r:.200}"
            inner = difference(expected[key], found[key], f"{where}.{key}")
            if inner:
                return inner
        return None
    if isinstance(expected, list):
        if len(expected) != len(found):
            return f"{where}: expected {len(expected)} items, found {len(found)}"
        for index, (left, right) in enumerate(zip(expected, found)):
            inner = difference(left, right, f"{where}[{index}]")
            if inner:
                return inner
        return None
    if isinstance(expected, float):
        same = repr(expected) == repr(found)
    else:
        same = expected == found
    return None if same else f"{where}: expected {expected!r:.200}, found {found!r:.200}"


def row_difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """Compares a row that was read with what expected_row() made."""
    expected, found = dict(expected), dict(found)
    created = expected.pop("created_at")
    text = found.pop("created_at", None)
    where = f"row {expected.get('id')!r}"
    if not isinstance(text, str) or not _TIMESTAMP.fullmatch(text):
        return f"{where}.created_at: not a time in the form of the contract: {text!r}"
    if created is not ANY_TIME and utc_microseconds(text) != created:
        return f"{where}.created_at: expected {created}, found {text}"
    return difference(expected, found, where)


def newest_wins(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One record per id, the last one, at the place where it was written last."""
    kept: dict[str, Mapping[str, Any]] = {}
    for record in records:
        kept.pop(record["id"], None)
        kept[record["id"]] = record
    return list(kept.values())


def assert_rows(records: list[Mapping[str, Any]], rows: list[Mapping[str, Any]], *, ordered: bool = True) -> None:
    """`rows` (read) are exactly what `records` (appended, in this order) must give."""
    expected = newest_wins(records)
    wanted = [record["id"] for record in expected]
    got = [row["id"] for row in rows]
    assert len(got) == len(set(got)), f"doubled ids: {sorted({i for i in got if got.count(i) > 1})[:10]}"
    missing, extra = set(wanted) - set(got), set(got) - set(wanted)
    assert not missing and not extra, f"missing {sorted(missing)[:10]} ({len(missing)}), extra {sorted(extra)[:10]} ({len(extra)})"
    if ordered:
        assert got == wanted, "rows are not in the order of arrival"
    by_id = {row["id"]: row for row in rows}
    for record in expected:
        found = row_difference(expected_row(record), by_id[record["id"]])
        assert found is None, found


def row_from_arrow(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row that pylance read (one dict of to_pylist) in the form of expected_row(), without binary_payload."""
    row = {key: value for key, value in values.items()
           if value is not None and key not in ("binary_payload", "_tombstone") and not key.startswith("_row")}
    row["created_at"] = row["created_at"].replace(tzinfo=datetime.timezone.utc)
    for key in FLOATS & row.keys():
        row[key] = float32(row[key])
    for key in FLOAT_LISTS & row.keys():
        row[key] = [float32(value) for value in row[key]]
    links = [{key: value if key != "weight" else float32(value) for key, value in link.items() if value is not None}
             for link in row.pop("relationships", None) or []]
    if links:
        row["relationships"] = links
    if "metadata" in row:
        row["metadata"] = json.loads(row["metadata"])
    return row


def assert_arrow_rows(records: list[Mapping[str, Any]], rows: list[Mapping[str, Any]]) -> None:
    """Like assert_rows, for rows from pylance: also the payloads, and in any order."""
    expected = {record["id"]: record for record in records}
    got = [row["id"] for row in rows]
    assert sorted(got) == sorted(expected), (
        f"missing {sorted(set(expected) - set(got))[:10]}, extra {sorted(set(got) - set(expected))[:10]}, "
        f"doubled {sorted({i for i in got if got.count(i) > 1})[:10]}")
    for values in rows:
        record = expected[values["id"]]
        want, found = expected_row(record), row_from_arrow(values)
        if want["created_at"] is ANY_TIME:
            want["created_at"] = found["created_at"]
        wrong = difference({**want, "created_at": str(want["created_at"])}, {**found, "created_at": str(found["created_at"])},
                           f"row {values['id']!r}")
        assert wrong is None, wrong
        payload = record.get("binary_payload")
        assert values["binary_payload"] == payload, (
            f"row {values['id']!r}.binary_payload: expected {payload and len(payload)} bytes, "
            f"found {values['binary_payload'] and len(values['binary_payload'])}")
