"""Every test that docs/reliability.md names exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


def test_every_named_test_exists():
    page = (ROOT / "docs" / "reliability.md").read_text()
    cpp = {f"{suite}.{name}" for path in (ROOT / "tests").rglob("*_test.cc")
           for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M)}
    # Fixtures under another name.
    named = set(re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", page))
    assert len(named) > 40, "the page lost its table"
    assert not named - cpp, f"no such tests: {sorted(named - cpp)}"
    for file, test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", page):
        found = [path for path in (ROOT / "tests").rglob(file) if f"def {test}(" in path.read_text()]
        assert found, f"no such test: {file}::{test}"
    assert not re.search(r"^[A-Z]+_[A-Z]+$", page, re.M), "an unfilled table"
