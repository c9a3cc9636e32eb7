"""Bad input is a 4xx in the one error form that says where, nothing is written, and the server lives on."""

import json
import socket

import pytest

from harness.expected_rows import assert_rows
from harness.http_api import Answer, assert_envelope, encode_segment
from harness.records import FULL, plain

STORE = "guarded"
KEPT = [FULL, plain("kept-1"), plain("kept-2")]
JSON = {"Content-Type": "application/json"}
RECORDS = f"/api/v1/rollouts/{STORE}/records"


@pytest.fixture(scope="module")
def guarded(module_server):
    api = module_server.api()
    api.create(STORE).expect(201)
    api.append(STORE, KEPT).expect(201)
    return module_server


@pytest.fixture(autouse=True)
def nothing_is_written(guarded):
    yield
    assert guarded.running, f"the server died:\n{guarded.log_tail()}"
    api = guarded.api()
    assert_rows(KEPT, api.list(STORE))
    assert [store["name"] for store in api.get("/api/v1/rollouts").expect(200).json()["stores"]] == [STORE]


@pytest.fixture
def api(guarded):
    connection = guarded.api()
    yield connection
    connection.close()


def refused(answer: Answer, *statuses: int) -> str:
    """Any of the 4xx given (400 when none) in the envelope; the message."""
    return assert_envelope(answer, *(statuses or (400,)))[1]


BODIES = {
    "empty": b"",
    "blank": b"   ",
    "cut off": b'{"records":[{"id":"x","rollout_id":"r"}',
    "cut off in a string": b'{"records":[{"id":"x',
    "trailing comma": b'{"records":[{"id":"x","rollout_id":"r"},]}',
    "trailing text": b'{"records":[{"id":"x","rollout_id":"r"}]} x',
    "two values": b'{"records":[{"id":"x","rollout_id":"r"}]}{"records":[]}',
    "single quotes": b"{'records':[]}",
    "unquoted key": b'{records:[{"id":"x","rollout_id":"r"}]}',
    "comment": b'{"records":[{"id":"x","rollout_id":"r"}]/* */}',
    "array at the top": b'[{"id":"x","rollout_id":"r"}]',
    "string at the top": b'"records"',
    "null at the top": b"null",
    "number at the top": b"1",
    "no records": b"{}",
    "records is null": b'{"records":null}',
    "records is an object": b'{"records":{"id":"x","rollout_id":"r"}}',
    "records is a string": b'{"records":"x"}',
    "records is empty": b'{"records":[]}',
    "records twice": b'{"records":[{"id":"x","rollout_id":"r"}],"records":[{"id":"y","rollout_id":"r"}]}',
    "bare word": b'{"records":[{"id":"x","rollout_id":"r","include_in_training":yes}]}',
    "leading zero": b'{"records":[{"id":"x","rollout_id":"r","sequence_order":01}]}',
    "plus sign": b'{"records":[{"id":"x","rollout_id":"r","sequence_order":+1}]}',
    "hex number": b'{"records":[{"id":"x","rollout_id":"r","sequence_order":0x1}]}',
    "dot without digits": b'{"records":[{"id":"x","rollout_id":"r","reward":1.}]}',
    "raw control character": b'{"records":[{"id":"x\x01","rollout_id":"r"}]}',
    "raw line break": b'{"records":[{"id":"x\ny","rollout_id":"r"}]}',
    "bad escape": b'{"records":[{"id":"\\x41","rollout_id":"r"}]}',
    "short unicode escape": b'{"records":[{"id":"\\u12","rollout_id":"r"}]}',
    "raw 0xFF": b'{"records":[{"id":"x\xff","rollout_id":"r"}]}',
    "raw 0xFF in a skipped field": b'{"records":[{"id":"x","rollout_id":"r","skipped":"\xff"}]}',
    "overlong utf-8": b'{"records":[{"id":"\xc0\xaf","rollout_id":"r"}]}',
    "utf-8 surrogate": b'{"records":[{"id":"\xed\xa0\x80","rollout_id":"r"}]}',
    "cut off utf-8": b'{"records":[{"id":"\xf0\x9f\x9a","rollout_id":"r"}]}',
    "utf-16": '{"records":[{"id":"x","rollout_id":"r"}]}'.encode("utf-16"),
    "byte zero after the end": b'{"records":[{"id":"x","rollout_id":"r"}]}\x00',
    "deep nesting": b'{"records":[{"id":"x","rollout_id":"r","metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    "deep nesting unclosed": b'{"records":[{"id":"x","rollout_id":"r","metadata":' + b'{"a":' * 100_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_malformed_json_is_refused(api, body):
    refused(api.request("POST", RECORDS, body, JSON))


# field: JSON texts that it does not take.
STRING = ["1", "true", "[]", "{}", '"\\ud800"', '"\\udc00x"', '"\\ud800\\u0041"']
INT32 = ["1.0", "1.5", '"1"', "true", "[]", "2147483648", "-2147483649", "1e3", "99999999999999999999999", "NaN"]
FLOAT = ['"1"', "true", "[]", "{}", "NaN", "Infinity", "-Infinity", "nan", "1e400"]
INT32_LIST = ["1", '"x"', "{}", "[1.0]", '["1"]', "[null]", "[2147483648]", "[-2147483649]", "[[1]]", "[true]", "[NaN]"]
FLOAT_LIST = ["1", '"x"', "{}", '["1"]', "[null]", "[[1]]", "[true]", "[NaN]", "[Infinity]"]
WRONG = {
    "id": [*STRING, "null"],
    "rollout_id": [*STRING, "null"],
    "problem_id": STRING,
    "dataset": STRING,
    "sequence_order": [*INT32, "null"],
    "role": [*STRING, "null"],
    "created_at": ["1", "true", "{}", '""', '"yesterday"', '"2024-01-02T03:04:05"', '"2024-01-02"', '"2024-13-02T03:04:05Z"',
                   '"2024-02-30T03:04:05Z"', '"2024-01-02T25:04:05Z"', '"2024-01-02T03:04:05Zx"', '"2024-01-02T03:04:05+99:00"', "1700000000"],
    "content": STRING,
    "content_type": [*STRING, "null"],
    "model_input_string": STRING,
    "model_output_string": STRING,
    "rationale": STRING,
    "problem_text": STRING,
    "user_metadata": STRING,
    "input_tokens": INT32_LIST,
    "output_tokens": INT32_LIST,
    "num_input_tokens": INT32,
    "num_output_tokens": INT32,
    "output_logprobs": FLOAT_LIST,
    "input_logprobs": FLOAT_LIST,
    "ref_logprobs": FLOAT_LIST,
    "loss_mask": ["1", '"x"', "{}", "[1.0]", '["1"]', "[null]", "[128]", "[-129]", "[true]"],
    "advantage": FLOAT,
    "reward": FLOAT,
    "raw_reward": FLOAT,
    "grader_id": STRING,
    "score": FLOAT,
    "include_in_training": ["1", "0", '"true"', "[]", "{}"],
    "exclude_reason": STRING,
    "policy_version": STRING,
    "relationships": ["null", "1", "{}", '"x"', "[1]", "[null]", "[{}]", '[{"target_id":"t"}]', '[{"relation":"x"}]',
                      '[{"target_id":1,"relation":"x"}]', '[{"target_id":"t","relation":null}]',
                      '[{"target_id":"t","relation":"x","weight":"heavy"}]', '[{"target_id":"t","relation":"x","weight":NaN}]',
                      '[{"target_id":"\\ud800","relation":"x"}]'],
    "binary_payload": ["1", "{}", "[]", '"a"', '"YQ"', '"YQ="', '"YQ==="', '"Y Q=="', '"YQ==\\n"', '"-_8="', '"YR=="', '"=YQ="', '"é"'],
    "payload_size": ["1.0", '"1"', "true", "9223372036854775808", "-9223372036854775809"],
    "payload_checksum": STRING,
    "artifact_type": STRING,
    "metadata": ["NaN", "[1,]", "tru", '{"a":Infinity}', '"\\ud800"', '{"a":"\\udfff"}'],
}
SYNTAX = {"NaN", "Infinity", "-Infinity", "nan", "[NaN]", "[Infinity]", "[1,]", "tru", '{"a":Infinity}',
          '[{"target_id":"t","relation":"x","weight":NaN}]'}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_value_names_the_record_and_the_field(api, field):
    for text in WRONG[field]:
        required = {"id": '"bad"', "rollout_id": '"r"', field: text}
        bad = ",".join(f'"{key}":{value}' for key, value in required.items())
        body = '{"records":[{"id":"good","rollout_id":"r"},{%s},{"id":"good-2","rollout_id":"r"}]}' % bad
        message = refused(api.request("POST", RECORDS, body.encode(), JSON))
        if text not in SYNTAX:
            assert "records[1]" in message and field in message, f"{field} = {text}: {message!r} does not say where"


@pytest.mark.parametrize("field", ["id", "rollout_id"])
def test_a_missing_field_names_the_record_and_the_field(api, field):
    record = plain("bad")
    del record[field]
    message = refused(api.append(STORE, [plain("good"), plain("good-2"), record]))
    assert "records[2]" in message and field in message, message


@pytest.mark.parametrize("record", ["null", "1", '"x"', "[]", "true"])
def test_a_record_that_is_no_object_names_its_index(api, record):
    message = refused(api.request("POST", RECORDS, b'{"records":[{"id":"a","rollout_id":"r"},%s]}' % record.encode(), JSON))
    assert "records[1]" in message, message


@pytest.mark.parametrize("field", ["id", "content", "reward", "output_tokens", "relationships", "metadata"])
def test_a_doubled_key_is_refused(api, field):
    text = json.dumps(FULL[field])
    body = '{"records":[{"id":"x","rollout_id":"r","%s":%s,"%s":%s}]}' % (field, text, field, text)
    message = refused(api.request("POST", RECORDS, body.encode(), JSON))
    assert field in message, message


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/octet-stream", "application/x-www-form-urlencoded", "",
                                          "multipart/mixed; boundary=b", "multipart/form-data", "multipart/form-data; boundary="])
def test_another_content_type_is_refused(api, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}
    refused(api.request("POST", RECORDS, b'{"records":[{"id":"x","rollout_id":"r"}]}', headers), 400, 415)


def sent_raw(server, head: bytes, body: bytes = b"") -> Answer:
    """An exchange whose bytes http.client would not send."""
    import http.client

    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head + b"\r\n\r\n" + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def test_an_over_long_append_is_refused_before_it_is_sent(guarded):
    answer = sent_raw(guarded, b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"
                      % (RECORDS.encode(), (1 << 30) + 1), b'{"records":[')
    refused(answer, 400, 413)


def test_an_over_long_create_is_refused(guarded):
    body = json.dumps({"name": "long", "padding": "x" * (2 << 20)}).encode()
    answer = sent_raw(guarded, b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d"
                      % len(body), body[:100_000])
    refused(answer, 413)


def test_an_over_long_chunked_create_is_refused(guarded):
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
    answer = sent_raw(guarded, b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked",
                      chunk * 2 + b"1\r\n \r\n")
    refused(answer, 413)


HEADS = {
    "no http": b"hello",
    "bad version": b"GET /api/v1/health HTTP/9.9\r\nHost: x",
    "bad header": b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nno colon here",
    "bad content length": b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\nContent-Length: many",
    "length and chunked": b"POST /api/v1/rollouts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3\r\n"
                          b"Transfer-Encoding: chunked",
    "huge header": b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 1_000_000,
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_what_is_no_http_does_no_harm(guarded, head):
    import http.client

    try:
        assert 400 <= sent_raw(guarded, head, b"0\r\n\r\n").status < 600
    except (OSError, http.client.HTTPException):
        # Closing the connection is an answer too.
        pass
    guarded.api().get("/api/v1/health").expect(200)


def test_a_body_that_ends_early_writes_nothing(guarded):
    body = b'{"records":[{"id":"early","rollout_id":"r"}]}'
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=60) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                           % (RECORDS.encode(), len(body) + 1) + body)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1000)


ONE = [plain("x")]
TWO = [plain("x"), plain("y")]


def part_headers(*sections: tuple[bytes, bytes], end: bytes = b"--b--\r\n") -> bytes:
    return b"".join(b"--b\r\n%s\r\n\r\n%s\r\n" % section for section in sections) + end


METADATA = (b'Content-Disposition: form-data; name="metadata"', json.dumps({"records": TWO}).encode())
PART_0 = (b'Content-Disposition: form-data; name="0"', b"bytes")
MULTIPART = {
    "no part": b"--b--\r\n",
    "nothing": b"",
    "no metadata": part_headers(PART_0),
    "metadata second": part_headers(PART_0, METADATA),
    "metadata twice": part_headers(METADATA, METADATA),
    "metadata is no json": part_headers((METADATA[0], b"{")),
    "metadata is empty": part_headers((METADATA[0], b"")),
    "metadata has a bad record": part_headers((METADATA[0], b'{"records":[{"id":"x"}]}')),
    "metadata has no records": part_headers((METADATA[0], b'{"records":[]}')),
    "part that is no number": part_headers(METADATA, (b'Content-Disposition: form-data; name="first"', b"bytes")),
    "part with a negative number": part_headers(METADATA, (b'Content-Disposition: form-data; name="-1"', b"bytes")),
    "part with a signed number": part_headers(METADATA, (b'Content-Disposition: form-data; name="+1"', b"bytes")),
    "part with a fraction": part_headers(METADATA, (b'Content-Disposition: form-data; name="1.0"', b"bytes")),
    "part with a huge number": part_headers(METADATA, (b'Content-Disposition: form-data; name="99999999999999999999999"', b"bytes")),
    "part with an empty name": part_headers(METADATA, (b'Content-Disposition: form-data; name=""', b"bytes")),
    "part without a name": part_headers(METADATA, (b"Content-Disposition: form-data", b"bytes")),
    "part without a disposition": part_headers(METADATA, (b"Content-Type: text/plain", b"bytes")),
    "part past the records": part_headers(METADATA, (b'Content-Disposition: form-data; name="2"', b"bytes")),
    "part twice": part_headers(METADATA, PART_0, PART_0),
    "no closing boundary": part_headers(METADATA, PART_0, end=b""),
    "cut off in a part": part_headers(METADATA, PART_0, end=b"")[:-6],
    "cut off in a part's head": part_headers(METADATA) [:-7] + b"--b\r\nContent-Dispo",
    "other boundary": part_headers(METADATA, PART_0).replace(b"--b", b"--c"),
    "raw 0xFF in metadata": part_headers((METADATA[0], b'{"records":[{"id":"\xff","rollout_id":"r"}]}')),
}


@pytest.mark.parametrize("body", MULTIPART.values(), ids=MULTIPART.keys())
def test_bad_multipart_is_refused(api, body):
    refused(api.request("POST", RECORDS, body, {"Content-Type": "multipart/form-data; boundary=b"}))


@pytest.mark.parametrize(("records", "parts"), [
    ([plain("x", payload_size=6)], [(0, b"seven77")]),
    ([plain("x", payload_size=6), plain("y")], [(1, b"other")]),
    ([plain("x", payload_size=-1)], [(0, b"")]),
    ([plain("x", payload_size=2, binary_payload="YQ==")], [(0, b"abc")]),
], ids=["size differs", "size without bytes", "negative size", "part overrides inline"])
def test_a_payload_size_that_lies_is_refused(api, records, parts):
    message = refused(api.append_multipart(STORE, records, parts))
    assert "payload_size" in message and "records[0]" in message, message


NAMES = ["../x", "..", ".", "a/b", "/etc/passwd", "", " ", "a b", ".hidden", "-dash", "a\\b", "a:b", "a\u0000b", "é", "x" * 129,
         "_registry", "_stats", "%2e%2e", "a\n", "../../../../tmp/sarissa-escape"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_bad_name_is_refused_everywhere(guarded, api, name):
    before = {path.name for path in guarded.data_dir.parent.iterdir()}
    refused(api.create(name))
    if name not in ("", ".", ".."):
        for answer in (api.list_answer(name), api.append(name, ONE), api.blob_answer(name, "x"),
                       api.delete(name), api.get(f"/api/v1/rollouts/{encode_segment(name)}")):
            refused(answer)
    assert {path.name for path in guarded.data_dir.parent.iterdir()} == before, "something was made outside the data directory"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"{}", b'{"name":null}', b'{"name":1}', b'{"name":["x"]}', b'{"name":"\xff"}',
                                  b'{"name":"\\ud800"}', b'{"name":"x","storage_options":1}', b'{"name":"x","storage_options":{"a":1}}',
                                  b'{"name":"x","storage_options":[]}', b'{"name":"x","name":"y"}', b'{"name":"x"} y'], ids=repr)
def test_a_bad_create_is_refused(api, body):
    refused(api.request("POST", "/api/v1/rollouts", body, JSON), 400, 422)


def test_create_of_another_content_type_is_refused(api):
    refused(api.request("POST", "/api/v1/rollouts", b'{"name":"x"}', {"Content-Type": "text/plain"}), 400, 415)
    refused(api.request("POST", "/api/v1/rollouts", b'{"name":"x"}'), 400, 415)


@pytest.mark.parametrize("query", [
    "limit=-1", "limit=x", "limit=1.5", "limit=", "limit=99999999999999999999999", "limit=1&limit=2", "offset=-1", "offset=x", "offset=1&offset=1",
    "filters=", "filters=x", "filters=[]", "filters=null", "filters=1", 'filters={"role":1}', 'filters={"role":null}', 'filters={"role":["user"]}',
    'filters={"include_in_training":"true"}', 'filters={"include_in_training":null}', 'filters={"id":"full"}', 'filters={"content":"x"}',
    'filters={"role":"user"', "filters=%7B%22role%22%3A%22%FF%22%7D", 'filters={"role":"\\ud800"}'], ids=repr)
def test_a_bad_query_is_refused(api, query):
    refused(api.get(f"{RECORDS}?{query.replace(' ', '%20').replace(chr(34), '%22')}"))


@pytest.mark.parametrize("path", ["/api/v1/rollouts/%FF", f"{RECORDS}/%FF", f"{RECORDS}/%C0%AF/blob", f"{RECORDS}/%ED%A0%80"])
def test_a_path_that_is_not_utf8_is_refused(api, path):
    refused(api.get(path))


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/api/v2/health", "/api/v1/rollouts/", f"{RECORDS}/", f"{RECORDS}/a/b/c", "/etc/passwd",
                                  "/api/v1//rollouts", "/../../etc/passwd", "/api/v1/rollouts/../rollouts"])
def test_an_unknown_path_is_not_found(api, path):
    assert_envelope(api.get(path), 404)


@pytest.mark.parametrize(("method", "path"), [("PUT", RECORDS), ("DELETE", RECORDS), ("PATCH", "/api/v1/rollouts"), ("POST", "/api/v1/health"),
                                              ("POST", f"{RECORDS}/full"), ("DELETE", f"{RECORDS}/full/blob"), ("POST", "/metrics")])
def test_a_wrong_method_is_refused_and_the_right_ones_are_named(api, method, path):
    answer = api.request(method, path, b"")
    assert_envelope(answer, 405)
    assert answer.headers.get("allow")


def test_a_store_that_exists_is_a_conflict(api):
    assert assert_envelope(api.create(STORE), 409)[0] == "ALREADY_EXISTS"


def test_nothing_of_all_this_comes_to_light_after_kill9(guarded):
    guarded.kill9()
    guarded.start()


def test_nothing_of_all_this_comes_to_light_after_a_restart(guarded):
    guarded.restart()
