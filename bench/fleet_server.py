"""The server of the fleet benchmark: its process, a client of it, and what the kernel says about it."""

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import time
import urllib.parse
from typing import Iterator, NamedTuple

import run

ANSWER_SECONDS = 120
# A server that starts is asked this often whether it answers.
POLL_SECONDS = 0.002
OPERATIONS = "object_store_operations_total"


class Answer(NamedTuple):
    status: int
    body: bytes

    def expect(self, status: int, what: str) -> "Answer":
        if self.status != status:
            raise run.Void(f"{what}: HTTP {self.status} {self.body[:300]!r}")
        return self


class Client:
    """One kept connection; not thread safe."""

    def __init__(self, port: int):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._connection.close()

    def request(self, method: str, path: str, value=None) -> Answer:
        body = None if value is None else json.dumps(value).encode()
        self._connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return Answer(response.status, response.read())

    def create(self, name: str) -> None:
        self.request("POST", "/api/v1/rollouts", {"name": name}).expect(201, f"create {name}")

    def append(self, name: str, row: dict) -> None:
        self.request("POST", f"/api/v1/rollouts/{name}/records", {"records": [row]}).expect(201, f"append to {name}")

    def flush(self, name: str) -> None:
        self.request("POST", f"/api/v1/rollouts/{name}/flush").expect(200, f"flush {name}")

    def ids(self, name: str) -> list[str]:
        answer = self.request("GET", f"/api/v1/rollouts/{name}/records").expect(200, f"list {name}")
        return [row["id"] for row in json.loads(answer.body)["records"]]


class Server:
    """A process over a data directory. Ends with the block, cleanly or not: stop() and kill9() say how."""

    def __init__(self, directory: pathlib.Path, *arguments: str):
        self._log_path = directory / "server.log"
        self.port = run.free_port()
        self._command = [run.SERVER, "serve", "--host", "127.0.0.1", "--port", str(self.port), "--data-dir", str(directory / "data"),
                         *arguments]
        self._process: subprocess.Popen | None = None
        # From exec to the first 200 of a listing of one store, the last time.
        self.start_seconds = 0.0

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def start(self) -> None:
        with open(self._log_path, "ab") as log:
            began = time.monotonic()
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not self._lists():
            if self._process.poll() is not None or time.monotonic() - began > ANSWER_SECONDS:
                raise run.Void(f"the server did not come up: {self.log_tail()}")
            time.sleep(POLL_SECONDS)
        self.start_seconds = time.monotonic() - began

    def _lists(self) -> bool:
        try:
            with contextlib.closing(Client(self.port)) as client:
                return client.request("GET", "/api/v1/rollouts?limit=1").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def stop(self) -> float:
        """Seconds from SIGTERM to the end."""
        began = time.monotonic()
        self._process.terminate()
        try:
            code = self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            raise run.Void(f"the server still ran {ANSWER_SECONDS} s after SIGTERM") from None
        if code != 0:
            raise run.Void(f"the server ended with {code}: {self.log_tail()}")
        return time.monotonic() - began

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-2000:]

    def get(self, path: str) -> bytes:
        with contextlib.closing(Client(self.port)) as client:
            return client.request("GET", path).expect(200, path).body

    def status(self) -> dict:
        return json.loads(self.get("/api/v1/status"))

    def operations(self) -> dict[str, float]:
        """Calls of the object store so far, by operation and outcome."""
        counted = dict(line.rsplit(" ", 1) for line in self.get("/metrics").decode().splitlines() if line.startswith(OPERATIONS + "{"))
        if not counted:
            raise run.Void(f"/metrics has no {OPERATIONS}: the operations of the store are not counted")
        return {series: float(value) for series, value in counted.items()}

    def stores(self) -> Iterator[str]:
        """The names, page by page."""
        token = ""
        while True:
            page = json.loads(self.get(f"/api/v1/rollouts?limit=1000{token}"))
            yield from (store["name"] for store in page["stores"])
            if "next_page_token" not in page:
                return
            token = "&page_token=" + urllib.parse.quote(page["next_page_token"], safe="")

    def resources(self) -> dict[str, int]:
        return resources(self._process.pid)


def resources(pid: int | str) -> dict[str, int]:
    """What the kernel counts for a process: bytes of memory, threads, descriptors."""
    process = pathlib.Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    memory = {name: int(fields[field].split()[0]) * 1024 for name, field in
              (("rss", "VmRSS"), ("rss_anonymous", "RssAnon"), ("rss_peak", "VmHWM"))}
    return {**memory, "threads": int(fields["Threads"]), "descriptors": len(list((process / "fd").iterdir()))}
