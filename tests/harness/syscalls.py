"""Reads an strace log (-f -y) as a list of calls in the order of their starts, each with the lines where it began and ended."""

import os
import pathlib
import re
from typing import NamedTuple

TRACED = ("openat,open,creat,close,link,linkat,symlink,symlinkat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,fsync,fdatasync,"
          "sync_file_range,syncfs,write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,ftruncate,sendto,sendmsg")
_CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$", re.DOTALL)
_RESUMED = re.compile(r"^(\d+)\s+<\.\.\. (\w+) resumed>(.*)$", re.DOTALL)
_RESULT = re.compile(r"\)\s+= (-?\d+|\?)(?:<(.*)>)?")


class Call(NamedTuple):
    thread: int
    name: str
    arguments: str
    start: int
    end: int
    result: int
    result_path: str | None

    @property
    def ok(self) -> bool:
        return self.result >= 0

    def before(self, other: "Call") -> bool:
        """This call had returned when the other one began."""
        return self.end < other.start

    @property
    def fd_path(self) -> str | None:
        """The path of the file descriptor that is the first argument."""
        match = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", self.arguments)
        return match.group(1) if match else None

    def paths(self) -> list[str]:
        """Path arguments, made absolute with the directory descriptor that stands before each."""
        found = []
        for match in re.finditer(r'(?:(AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"((?:[^"\\]|\\.)*)"', self.arguments):
            base, text = match.group(2) or os.getcwd(), match.group(3)
            found.append(os.path.normpath(os.path.join(base, text)) if text else base)
        return found


def command(log: pathlib.Path) -> tuple[str, ...]:
    return ("strace", "-f", "-y", "-qq", "-s", "64", "-e", f"trace={TRACED}", "-e", "signal=none", "-o", str(log))


def read(log: pathlib.Path) -> list[Call]:
    calls, open_calls = [], {}
    for number, line in enumerate(log.read_text(errors="replace").splitlines()):
        resumed = _RESUMED.match(line)
        if resumed:
            thread = int(resumed.group(1))
            start, name, arguments = open_calls.pop(thread)
            text = arguments + resumed.group(3)
        else:
            begun = _CALL.match(line)
            if not begun:
                continue
            thread, name, text, start = int(begun.group(1)), begun.group(2), begun.group(3), number
            if text.endswith("<unfinished ...>"):
                open_calls[thread] = (start, name, text.removesuffix("<unfinished ...>").rstrip())
                continue
        results = list(_RESULT.finditer(text))
        if not results or results[-1].group(1) == "?":
            continue
        last = results[-1]
        calls.append(Call(thread, name, text[:last.start()], start, number, int(last.group(1)), last.group(2)))
    return sorted(calls, key=lambda call: call.start)
