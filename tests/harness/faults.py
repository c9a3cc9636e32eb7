"""File system calls of a server process that fail on request: the Python side of fault_shim.c."""

import ctypes
import mmap
import pathlib
import shutil
import subprocess
import tempfile

_SOURCE = pathlib.Path(__file__).with_name("fault_shim.c")
_RULES = 32


class _Rule(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_char * 16), ("path", ctypes.c_char * 108), ("error", ctypes.c_int32),
                ("skip", ctypes.c_int32), ("times", ctypes.c_int32), ("armed", ctypes.c_int32),
                ("matched", ctypes.c_int32), ("injected", ctypes.c_int32)]


_library: pathlib.Path | None = None


def shim_library() -> pathlib.Path:
    """The compiled shim; compiled once a test session."""
    global _library
    if _library is None or not _library.exists():
        target = pathlib.Path(tempfile.mkdtemp(prefix="fault-shim-")) / "fault_shim.so"
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-19")
        assert compiler, "no C compiler for tests/harness/fault_shim.c"
        built = subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(target), str(_SOURCE), "-ldl"],
                               capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        _library = target
    return _library


class Rule:
    def __init__(self, rule: _Rule):
        self._rule = rule

    @property
    def matched(self) -> int:
        return self._rule.matched

    @property
    def injected(self) -> int:
        return self._rule.injected

    def disarm(self) -> int:
        """The disk is healed; returns how often it had failed."""
        self._rule.armed = 0
        return self._rule.injected


class Faults:
    """The rules of one server. `env` goes into the server's environment; rules may come and go while it runs."""

    def __init__(self, folder: pathlib.Path):
        control = pathlib.Path(folder) / "faults.control"
        control.write_bytes(bytes(ctypes.sizeof(_Rule) * _RULES))
        self.env = {"LD_PRELOAD": str(shim_library()), "SARISSA_FAULT_CONTROL": str(control)}
        self._file = open(control, "r+b")
        self._mapping = mmap.mmap(self._file.fileno(), 0)
        self._rules = (_Rule * _RULES).from_buffer(self._mapping)
        self._used = 0

    def arm(self, operation: str, path: str, error: int, *, skip: int = 0, times: int = 1) -> Rule:
        """Fails calls of `operation` (open, link, mkdir, rename, unlink, rmdir, write, fsync, fdatasync, pread, mmap, stat,
        opendir) on paths that contain `path`. times=-1: until disarmed."""
        rule = self._rules[self._used]
        self._used += 1
        rule.operation, rule.path = operation.encode(), path.encode()
        rule.error, rule.skip, rule.times = error, skip, times
        rule.armed = 1
        return Rule(rule)

