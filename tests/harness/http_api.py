"""Raw HTTP against the server over one keep-alive connection: bytes in, bytes out, nothing retried."""

import http.client
import json
import secrets
import socket
import urllib.parse
from typing import Iterable, Mapping, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def error_message(self) -> str:
        return self.json()["error"]["message"]

    def expect(self, *statuses: int) -> "Answer":
        assert self.status in statuses, f"HTTP {self.status}, expected {statuses}: {self.body[:2000]!r}"
        return self


def encode_segment(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def multipart(records: list | bytes, parts: Iterable[tuple[str | int | None, bytes]], *, metadata_first: bool = True,
              finished: bool = True) -> tuple[bytes, str]:
    """A multipart body as the Python client makes it, and its content type. `records` may be the metadata's raw bytes."""
    boundary = secrets.token_hex(16)
    metadata = records if isinstance(records, bytes) else json.dumps({"records": records}).encode()
    sections = [(b'form-data; name="metadata"', b"", metadata)]
    for name, content in parts:
        disposition = b"form-data" if name is None else f'form-data; name="{name}"'.encode()
        sections.append((disposition, b"Content-Type: application/octet-stream\r\n", content))
    if not metadata_first:
        sections.append(sections.pop(0))
    body = b"".join(
        b"--%s\r\nContent-Disposition: %s\r\n%s\r\n%s\r\n" % (boundary.encode(), disposition, extra, content)
        for disposition, extra, content in sections)
    if finished:
        body += f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


class Api:
    """Not thread safe. A failed exchange closes the connection; the next request opens a new one."""

    def __init__(self, host: str, port: int, *, timeout: float = 120, prefix: str = ""):
        self._host, self._port, self._timeout, self._prefix = host, port, timeout, prefix
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def request(self, method: str, path: str, body=None, headers: Mapping[str, str] | None = None) -> Answer:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._connection.request(method, self._prefix + path, body=body, headers=dict(headers or {}))
            response = self._connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if response.will_close:
            self.close()
        return answer

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post_json(self, path: str, value) -> Answer:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.request("POST", path, body, {"Content-Type": "application/json"})

    def create(self, name: str) -> Answer:
        return self.post_json("/api/v1/rollouts", {"name": name})

    def delete(self, name: str) -> Answer:
        return self.request("DELETE", f"/api/v1/rollouts/{encode_segment(name)}")

    def append(self, name: str, records: list | bytes, *, flush: bool = False) -> Answer:
        value = records if isinstance(records, bytes) else {"records": records}
        return self.post_json(self.records_path(name) + ("?flush=true" if flush else ""), value)

    def append_multipart(self, name: str, records: list | bytes, parts, *, flush: bool = False, **options) -> Answer:
        body, content_type = multipart(records, parts, **options)
        return self.request("POST", self.records_path(name) + ("?flush=true" if flush else ""), body,
                            {"Content-Type": content_type})

    def flush(self, name: str) -> Answer:
        return self.request("POST", f"/api/v1/rollouts/{encode_segment(name)}/flush", b"")

    def records_path(self, name: str) -> str:
        return f"/api/v1/rollouts/{encode_segment(name)}/records"

    def list_answer(self, name: str, **query) -> Answer:
        if "filters" in query and not isinstance(query["filters"], str):
            query["filters"] = json.dumps(query["filters"])
        suffix = "?" + urllib.parse.urlencode(query) if query else ""
        return self.get(self.records_path(name) + suffix)

    def list(self, name: str, **query) -> list[dict]:
        return self.list_answer(name, **query).expect(200).json()["records"]

    def record(self, name: str, record_id: str) -> dict | None:
        return self.get(f"{self.records_path(name)}/{encode_segment(record_id)}").expect(200).json()["record"]

    def blob_answer(self, name: str, record_id: str) -> Answer:
        return self.get(f"{self.records_path(name)}/{encode_segment(record_id)}/blob")

    def blob(self, name: str, record_id: str) -> bytes | None:
        answer = self.blob_answer(name, record_id).expect(200, 404)
        return answer.body if answer.status == 200 else None


def assert_envelope(answer: Answer, *statuses: int) -> tuple[str, str]:
    """The answer is an error in the one JSON form; returns its code and message."""
    assert answer.status in statuses, f"HTTP {answer.status}, expected {statuses}: {answer.body[:2000]!r}"
    content_type = answer.headers.get("content-type", "")
    assert content_type.split(";")[0].strip() == "application/json", f"{answer.status} is {content_type!r}: {answer.body[:500]!r}"
    error = answer.json()["error"]
    assert isinstance(error["code"], str) and error["code"], error
    assert isinstance(error["message"], str) and error["message"], error
    return error["code"], error["message"]
