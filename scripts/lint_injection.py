#!/usr/bin/env python3
"""Rules of the source tree that the compiler does not enforce. Prints file:line: rule for each breach and exits 1.

The injection rule: outside src/env/ nothing asks the operating system for a thread, the time, randomness or a file, because
the deterministic simulation stands on env/ being the only door. src/server/ uses Asio for sockets, src/cli/ reads the
environment and arguments. Beside it: includes go down the rooms, names that say nothing, notes for later, tests switched off.

Usage: lint_injection.py [ROOT]
"""

import pathlib
import re
import sys
from typing import Iterator, NamedTuple

ROOMS = ["base", "env", "object_store", "lance", "memwal", "engine", "rollout", "server", "cli"]

# A call by plain or global name, not a member (`file.open(`), not a qualified name of another namespace (`asio::open(`).
_CALL = r"(?<![\w.>:~])(?:std::)?{0}\s*\(|(?<![\w>]):: *{0}\s*\("


def _call(names: str) -> str:
    return _CALL.format(f"(?:{names})")


class Rule(NamedTuple):
    what: str
    pattern: re.Pattern
    rooms_allowed: tuple = ()


INJECTION_RULES = [
    Rule("threads come from env::Executor", re.compile(r"\bstd::(?:jthread|thread|async|this_thread::sleep\w*)\b|\bpthread_create\b")),
    Rule("time comes from env::Clock", re.compile(r"\b\w*(?:_clock|Clock)::now\s*\(|" + _call("time|clock_gettime|gettimeofday|clock"))),
    Rule("waiting belongs to env::Executor", re.compile(_call("sleep|usleep|nanosleep"))),
    Rule("randomness comes from env::Random", re.compile(r"\bstd::(?:random_device|mt19937\w*|default_random_engine)\b|" + _call("s?rand|random|getrandom|arc4random"))),
    Rule("files come from env::FileSystem", re.compile(
        r"\bstd::(?:basic_)?[iow]?fstream\b|\bstd::(?:basic_)?filebuf\b|" +
        _call("open|openat|creat|fopen|freopen|tmpfile|mkstemp|mkdtemp|mkdir|mkdirat|unlink|unlinkat|rename|renameat2?|linkat?|"
              "symlink|mmap|munmap|fsync|fdatasync|sync_file_range|pread|pwrite|opendir|fallocate|ftruncate"))),
    Rule("files come from env::FileSystem", re.compile(
        r"\bstd::filesystem::(?!path\b)\w+|\barrow::(?:io::(?:ReadableFile|MemoryMappedFile|FileOutputStream)|fs::)")),
    Rule("sockets belong to server/ and its Asio", re.compile(_call("socket|bind|listen|accept|connect|epoll_create1?|getaddrinfo")), ("server", "cli")),
    # base/ reads one variable: which sync point kills the process under a crash test.
    Rule("the environment is read in cli/", re.compile(_call("getenv|secure_getenv|setenv")), ("base", "cli")),
]

FORBIDDEN_HEADERS = {
    "thread": "env", "fstream": "env", "random": "env", "filesystem": "env", "future": "env",
    "fcntl.h": "env", "sys/stat.h": "env", "sys/mman.h": "env", "unistd.h": "env", "pthread.h": "env",
}
HEADERS_ALLOWED = {("filesystem", "cli"), ("unistd.h", "cli")}

EMPTY_NAMES = {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"}
EMPTY_TYPES = re.compile(r"\b(?:class|struct|namespace)\s+(?:\w+::)*(\w*(?:Utils?|Helpers?|Managers?|Common)|utils?|helpers?|common|managers?|misc)\b\s*(?:final\s*)?[:{]")
LATER = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
SWITCHED_OFF = re.compile("|".join(["GTEST_" + "SKIP", r"\bDISABLED" + r"_\w", r"pytest\.mark\.(?:skip|xfail)", r"pytest\.(?:skip|xfail|importorskip)\("]))
SLEEPING_TEST = re.compile(r"\bstd::this_thread::sleep\w*|" + _call("sleep|usleep|nanosleep"))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

_LEXEME = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL)


def code_only(text: str) -> str:
    """The text with comments and literals blanked, line breaks kept."""
    return _LEXEME.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def _lines_of(pattern: re.Pattern, text: str) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group().strip()


def check_names(path: pathlib.PurePosixPath) -> Iterator[tuple[int, str]]:
    for part in path.parts:
        words = set(re.split(r"[_\-.]", part.lower()))
        if words & EMPTY_NAMES:
            yield 1, f"'{part}' is a name that says nothing ({', '.join(sorted(words & EMPTY_NAMES))})"


def check_includes(room: str, text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, header = match.groups()
        if ".." in header.split("/"):
            yield number, f'include "{header}" from the room\'s root, without ..'
            continue
        if bracket == "<":
            owner = FORBIDDEN_HEADERS.get(header)
            if owner and room != owner and (header, room) not in HEADERS_ALLOWED:
                yield number, f"<{header}> belongs to {owner}/"
            continue
        if header.startswith("proto/") and header.endswith(".pb.h"):
            continue
        target = header.split("/")[0]
        if target not in ROOMS or "/" not in header:
            yield number, f'include "{header}" does not start with a room'
        elif ROOMS.index(target) > ROOMS.index(room):
            yield number, f"{room}/ includes {target}/, which is above it"


def check_source(path: pathlib.PurePosixPath, text: str) -> Iterator[tuple[int, str]]:
    """Rules for a C++ file; `path` is relative to the root of the tree."""
    code = code_only(text)
    if path.parts[0] == "src" and len(path.parts) > 2:
        room = path.parts[1]
        if room not in ROOMS:
            yield 1, f"src/{room}/ is not a room"
            return
        yield from check_includes(room, text)
        if room != "env":
            for rule in INJECTION_RULES:
                if room in rule.rooms_allowed:
                    continue
                for number, found in _lines_of(rule.pattern, code):
                    yield number, f"{found.rstrip('( ')}: {rule.what}"
    if path.parts[0] == "tests":
        for number, found in _lines_of(SLEEPING_TEST, code):
            yield number, f"{found.rstrip('( ')}: a test waits on an event"
    for number, found in _lines_of(EMPTY_TYPES, code):
        yield number, f"'{found.rstrip('{: ')}' is a name that says nothing"
    if path.suffix == ".h" and "#pragma once" not in text:
        yield 1, "a header starts with #pragma once"


def check_text(text: str) -> Iterator[tuple[int, str]]:
    """Rules for every kind of file."""
    for number, found in _lines_of(LATER, text):
        yield number, f"{found}: finish it, or file an issue"
    for number, found in _lines_of(SWITCHED_OFF, text):
        yield number, f"{found}: no test is switched off"


def check_file(path: pathlib.PurePosixPath, text: str) -> list[tuple[int, str]]:
    breaches = list(check_names(path)) + list(check_text(text))
    if path.suffix in (".h", ".cc"):
        breaches += check_source(path, text)
    return sorted(breaches)


def files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for top in ("src", "proto", "tests", "bench", "scripts", "cmake", "docs"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc", ".py", ".proto", ".cmake", ".txt", ".md", "") and path.is_file():
                if "__pycache__" not in path.parts and path.name not in ("lint_injection.py", "test_lint_injection.py"):
                    yield path
    yield from sorted(root.glob("*.md"))


def main(root: pathlib.Path) -> int:
    breaches = checked = 0
    for path in files(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        checked += 1
        for number, message in check_file(pathlib.PurePosixPath(path.relative_to(root)), text):
            print(f"{path.relative_to(root)}:{number}: {message}")
            breaches += 1
    if not checked:
        print(f"lint_injection: nothing to check under {root}")
        return 1
    if breaches:
        print(f"lint_injection: {breaches} breaches in {checked} files")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)))
