"""Servers as fixtures; the log of every server that a failed test used goes into the report."""

import pathlib
import random
import shutil
import tempfile
import time

import pytest

from harness import injected as injected_faults
from harness.server import Server


@pytest.fixture
def make_server(tmp_path):
    """Makes a server over a new data directory of this test: make_server("name", env={...}).start()."""
    made = []

    def make(name: str = "data", **options) -> Server:
        made.append(Server(tmp_path / name, **options))
        return made[-1]

    yield make
    for server in made:
        server.discard()


@pytest.fixture
def memory_path():
    """A directory in memory where there is one: for tests of many rounds, whose syncs must cost nothing."""
    memory = pathlib.Path("/dev/shm")
    path = pathlib.Path(tempfile.mkdtemp(prefix="sarissa-", dir=memory if memory.is_dir() else None))
    yield path
    for server in Server.all:
        if path in server.data_dir.parents:
            server.discard()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def seed():
    value = random.SystemRandom().randrange(2**32)
    print(f"seed {value}")
    return value


@pytest.fixture
def injected(request):
    """Counts the faults of this test by kind; the numbers are printed and kept when it has passed."""
    counted = injected_faults.Injected()
    failed_before = request.session.testsfailed
    yield counted
    if request.session.testsfailed == failed_before and counted:
        print(counted)
        injected_faults.record(request.node.name, counted)


@pytest.fixture
def server(make_server):
    return make_server().start()


@pytest.fixture
def api(server):
    connection = server.api()
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def module_server(tmp_path_factory):
    """One server for all tests of a file."""
    server = Server(tmp_path_factory.mktemp("module") / "data").start()
    yield server
    server.discard()


@pytest.fixture
def module_api(module_server):
    connection = module_server.api()
    yield connection
    connection.close()


@pytest.fixture
def store_name(request):
    """A store name of this test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]
    return f"t-{name.rstrip('-')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for server in Server.all:
            written = server.log_path.stat().st_mtime if server.log_path.exists() else 0
            if server.running or written >= time.time() - call.duration - 5:
                report.sections.append((f"server log {pathlib.Path(server.log_path).name}", server.log_tail()))
    return report
