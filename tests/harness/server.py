"""The server as a child process that a test starts, kills and measures."""

import contextlib
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
from typing import Iterator

from harness.http_api import Api

ROOT = pathlib.Path(__file__).parents[2]
START_SECONDS = 60
STOP_SECONDS = 120


def server_binary() -> str:
    return os.environ.get("SARISSA_BIN", str(ROOT / "build" / "release" / "sarissa"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One data directory and the process that serves it. The port stays the same over restarts."""

    # Every server of the test session, for the log of the one that a failed test used.
    all: list["Server"] = []

    def __init__(self, data_dir: pathlib.Path, *, env: dict | None = None, args: tuple = (), wrapper: tuple = ()):
        self.data_dir = pathlib.Path(data_dir)
        self.log_path = self.data_dir.parent / f"{self.data_dir.name}.server.log"
        self.port = free_port()
        self._env = {"INSTANCE_ID": "default", **(env or {})}
        self._args = args
        self._wrapper = wrapper
        self._process: subprocess.Popen | None = None
        Server.all.append(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process, also when it runs under a wrapper such as strace."""
        if not self._wrapper:
            return self._process.pid
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def api(self, **options) -> Api:
        """A connection of its own; one per thread."""
        return Api("127.0.0.1", self.port, **options)

    def launch(self) -> None:
        """Starts the process without waiting until it answers."""
        assert not self.running, "the server runs already"
        binary = server_binary()
        assert os.access(binary, os.X_OK), f"no server binary at {binary}: run `make build` or set SARISSA_BIN"
        command = [*self._wrapper, binary, "serve", "--host", "127.0.0.1", "--port", str(self.port),
                   "--data-dir", str(self.data_dir), *self._args]
        with open(self.log_path, "ab") as log:
            log.write(f"--- {' '.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self._env})

    def start(self) -> "Server":
        self.launch()
        if not self.answers_or_died():
            raise AssertionError(f"the server ended with {self._process.returncode} at start:\n{self.log_tail()}")
        return self

    def answers_or_died(self) -> bool:
        """Waits until the process that was launched answers (True) or ends (False)."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.running:
                return False
            try:
                with contextlib.closing(self.api(timeout=5)) as api:
                    if api.get("/api/v1/health").status == 200:
                        return True
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.005)
        raise AssertionError(f"the server does not answer after {START_SECONDS} s:\n{self.log_tail()}")

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"the server still runs {timeout} s after SIGTERM:\n{self.log_tail()}") from None

    def stop(self) -> None:
        """A clean stop: SIGTERM, everything drained, exit code 0."""
        assert self.running, f"the server is gone ({self._process and self._process.returncode}):\n{self.log_tail()}"
        self.terminate()
        code = self.wait()
        assert code == 0, f"exit code {code} after SIGTERM:\n{self.log_tail()}"

    def ended(self, seconds: float) -> bool:
        """Whether the process ends by itself within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill9(self) -> None:
        assert self.running, f"the server died by itself ({self._process and self._process.returncode}):\n{self.log_tail()}"
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def restart(self) -> None:
        self.stop()
        self.start()

    def discard(self) -> None:
        """Ends the process whatever its state; for the end of a test."""
        if self.running:
            with contextlib.suppress(OSError, IndexError):
                os.kill(self.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def memory(self) -> dict[str, int]:
        """VmRSS, VmHWM, RssAnon, RssFile and so on of the process, in bytes."""
        found = {}
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = int(value.split()[0]) * 1024
        return found

    @contextlib.contextmanager
    def watch_memory(self, interval: float = 0.001) -> Iterator["MemoryPeak"]:
        """Measures how far resident memory rises above its level at entry.

        The kernel's own high-water mark (reset at entry) is exact; the samples tell how much of it was anonymous.
        """
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        before = self.memory()
        peak = MemoryPeak(before["VmRSS"], before["RssAnon"])
        done = threading.Event()

        def sample() -> None:
            while not done.is_set():
                now = self.memory()
                peak.see(now["VmRSS"], now["RssAnon"])
                done.wait(interval)

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        try:
            yield peak
        finally:
            done.set()
            sampler.join()
            now = self.memory()
            peak.see(max(now["VmRSS"], now["VmHWM"]), now["RssAnon"])


class MemoryPeak:
    def __init__(self, rss: int, anonymous: int):
        self._rss_before = self._rss = rss
        self._anonymous_before = self._anonymous = anonymous

    def see(self, rss: int, anonymous: int) -> None:
        self._rss = max(self._rss, rss)
        self._anonymous = max(self._anonymous, anonymous)

    @property
    def rise(self) -> int:
        return self._rss - self._rss_before

    @property
    def anonymous_rise(self) -> int:
        return self._anonymous - self._anonymous_before

    def __str__(self) -> str:
        return (f"VmRSS {self._rss_before / 1e6:.1f} -> {self._rss / 1e6:.1f} MB (+{self.rise / 1e6:.1f}), "
                f"RssAnon +{self.anonymous_rise / 1e6:.1f} MB")
