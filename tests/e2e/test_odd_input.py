"""Odd but legal input is kept exactly: at once, from the log after kill -9, and from a generation."""

import json

import pytest

from harness.expected_rows import assert_rows, newest_wins
from harness.http_api import assert_envelope
from harness.records import EMPTY, FULL, MINIMAL, plain

IDS = ["with space", "a/b", "../up", "..", ".", "question?mark", "hash#tag", "percent%20", "plus+plus", "semi;colon", "ünïcode-世界-\U0001F680",
       "quote\"'", "back\\slash", "nul\u0000nul", "new\nline", "amp&=ersand", "x" * 5000, "{}", "null", "[0]", "blob", "a/blob", "\ufeff", "\u202e"]
FLOATS = [0.0, -0.0, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 0.1, 1 / 3, 16777217, 123456789, 1e-10, 5e-324, 2**53 + 1, 1]
METADATA = [2**63 - 1, -(2**63), 2**64 - 1, 2**53 + 1, 0, -1, 1.0, 0.1, 1e300, -0.0, "", "\u0000", [], {}, [[]], True, False, [None], {"": ""},
            {"a": None, "A": 1}, {"z": 1, "a": 2, "ü": 3}, "0", "null", [2**63 - 1, -(2**63)], {"k" * 1000: "v" * 10_000}]
CASES = {
    "full": [FULL, MINIMAL, EMPTY],
    "ids": [plain(record_id, sequence_order=index) for index, record_id in enumerate(IDS)],
    "strings": [plain("nul", content="\u0000", dataset="a\u0000b"), plain("astral", content="\U0001F680\U0010FFFF\uFFFF", role="\U0001F680"),
                plain("escapes", content="\b\f\n\r\t\"\\/\u007f\u0080\u2028\u2029"), plain("long", content="ab\u00e9" * 100_000),
                plain("blank", content=" ", dataset="\t")],
    "empty beside null": [
        {"id": f"{text is not None}-{tokens is not None}-{index}", "rollout_id": "r", "content": text, "output_tokens": tokens,
         "output_logprobs": tokens, "loss_mask": tokens, "dataset": text}
        for index, (text, tokens) in enumerate([("", []), (None, None), ("", None), (None, []), ("x", [1]), ("", [])])],
    "floats": [plain(f"f{index}", reward=value, raw_reward=value, output_logprobs=[value, -value]) for index, value in enumerate(FLOATS)],
    "metadata": [plain(f"m{index}", metadata=value) for index, value in enumerate(METADATA)],
    "integers": [plain("max", sequence_order=2**31 - 1, payload_size=2**63 - 1, loss_mask=[127], num_input_tokens=2**31 - 1),
                 plain("min", sequence_order=-(2**31), payload_size=-(2**63), loss_mask=[-128], num_input_tokens=-(2**31))],
    "links": [plain("none", relationships=[]), plain("many", relationships=[
        {"target_id": f"t{i}", "relation": "" if i % 2 else "child", "weight": None if i % 3 else i / 7} for i in range(100)])],
    "an id twice in one batch": [plain("a", reward=1.0), plain("b"), plain("a", reward=2.0, dataset="d"), plain("c"), plain("a", reward=3.0)],
}


@pytest.fixture(scope="module")
def filled(module_server):
    api = module_server.api()
    for number, records in enumerate(CASES.values()):
        api.create(f"odd-{number}").expect(201)
        answer = api.append(f"odd-{number}", records).expect(201).json()
        assert answer["ids"] == [record["id"] for record in records] and answer["count"] == len(records)
    return module_server


def assert_kept(server, case: str) -> None:
    number, records = list(CASES).index(case), CASES[case]
    api = server.api()
    assert_rows(records, api.list(f"odd-{number}"))
    for record in newest_wins(records):
        found = api.record(f"odd-{number}", record["id"])
        assert found is not None, f"get of {record['id']!r} found nothing"
        assert_rows([record], [found])


@pytest.mark.parametrize("case", CASES)
def test_kept_at_once(filled, case):
    assert_kept(filled, case)


@pytest.fixture(scope="module")
def killed(filled):
    filled.kill9()
    filled.start()
    return filled


@pytest.mark.parametrize("case", CASES)
def test_kept_in_the_log(killed, case):
    assert_kept(killed, case)


@pytest.fixture(scope="module")
def restarted(killed):
    killed.restart()
    return killed


@pytest.mark.parametrize("case", CASES)
def test_kept_in_generations(restarted, case):
    assert_kept(restarted, case)


def test_an_unfetchable_empty_id_is_listed(api):
    api.create("s").expect(201)
    record = {"id": "", "rollout_id": ""}
    api.append("s", [record]).expect(201)
    assert_rows([record], api.list("s"))


def test_json_may_be_written_in_any_style(api):
    api.create("s").expect(201)
    body = (b' \t\r\n{ "extra" : {"deep":[1,{"x":null}]} , "records" : [ { "rollout_id" : "r" , "unknown" : "\\u00e9" , "reward":1E2 , '
            b'"id" : "\\u0041\\ud83d\\ude80" , "score" : 1.5e-3, "dataset":null , "metadata" : { "k" : [ 1 , 2 ] } } ] , "more":[] } \n')
    api.append("s", body).expect(201)
    assert_rows([{"id": "A\U0001F680", "rollout_id": "r", "reward": 100.0, "score": 0.0015, "metadata": {"k": [1, 2]}}],
                api.list("s"))


def roles(first: int, count: int) -> list[dict]:
    return [plain(f"id-{number}", role=f"role-{number}") for number in range(first, first + count)]


def assert_limit(answer) -> None:
    _, message = assert_envelope(answer, 400)
    assert "128" in message and "role" in message, message


def test_128_roles_in_one_batch_are_kept_and_the_129th_names_the_limit(server, api):
    api.create("s").expect(201)
    assert_limit(api.append("s", roles(0, 129)))
    assert api.list("s") == []
    api.append("s", roles(0, 128)).expect(201)
    assert_rows(roles(0, 128), api.list("s"))
    assert_limit(api.append("s", [plain("x", role="role-128")]))
    api.append("s", [plain("y", role="role-127")]).expect(201)
    assert_rows([*roles(0, 128), plain("y", role="role-127")], api.list("s"))
    server.stop()


def test_the_limit_of_roles_holds_over_appends_flushes_and_restarts(server, api):
    api.create("s").expect(201)
    kept = roles(0, 50)
    api.append("s", kept).expect(201)
    assert 200 <= api.flush("s").status < 300
    kept += roles(50, 50)
    api.append("s", roles(50, 50)).expect(201)
    assert_limit(api.append("s", roles(100, 29)))
    server.kill9()
    server.start()
    api = server.api()
    assert_limit(api.append("s", roles(100, 29)))
    kept += roles(100, 28)
    api.append("s", roles(100, 28)).expect(201)
    assert_limit(api.append("s", [plain("x", role="one too many")]))
    server.restart()
    api = server.api()
    assert_limit(api.append("s", [plain("x", role="one too many")]))
    kept += [plain("last", role="role-3")]
    api.append("s", [plain("last", role="role-3")]).expect(201)
    assert_rows(kept, api.list("s"))
    server.stop()


def test_a_request_that_is_refused_for_its_roles_does_not_use_them_up(api):
    api.create("s").expect(201)
    api.append("s", roles(0, 127)).expect(201)
    assert_limit(api.append("s", [plain("x", role="x"), plain("y", role="y")]))
    api.append("s", [plain("z", role="z")]).expect(201)
    assert len(api.list("s", filters={"role": "z"})) == 1


def test_large_values_of_every_kind(server, api):
    api.create("s").expect(201)
    records = [plain("text", content="é" * 1_500_000), plain("tokens", output_tokens=list(range(400_000)), output_logprobs=[0.1] * 400_000),
               plain("metadata", metadata={"k": ["v" * 1000] * 2000}), plain("small")]
    api.append("s", records).expect(201)
    assert_rows(records, api.list("s"))
    server.kill9()
    server.start()
    assert_rows(records, server.api().list("s"))
    server.restart()
    assert_rows(records, server.api().list("s"))
    server.stop()


def test_a_batch_of_many_rows(server, api):
    api.create("s").expect(201)
    records = [plain(f"{number}", sequence_order=number) for number in range(20_000)]
    api.append("s", json.dumps({"records": records}).encode()).expect(201)
    assert_rows(records, api.list("s"))
    server.restart()
    assert_rows(records, server.api().list("s"))
    server.stop()
