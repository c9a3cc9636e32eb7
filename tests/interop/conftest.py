"""What the interop tests of the file and table format share: where the test tools are built."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def build_dir() -> pathlib.Path:
    """The build directory whose tools are under test: SARISSA_BUILD, default build/release."""
    directory = pathlib.Path(os.environ.get("SARISSA_BUILD", ROOT / "build" / "release"))
    assert directory.is_dir(), f"no build at {directory}: run `make test`, or set SARISSA_BUILD"
    return directory.resolve()


@pytest.fixture(scope="session")
def find_tool(build_dir):
    """find_tool("name"): the path of a test tool of the build; fails with clear words when it is not built."""

    def find(name: str) -> pathlib.Path:
        for candidate in (build_dir / "tests" / name, build_dir / name):
            if os.access(candidate, os.X_OK):
                return candidate
        raise AssertionError(f"{name} is not built in {build_dir}")

    return find
