"""Facts about the machine and the software that a figure is worth nothing without."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _field(path: str, name: str) -> str:
    for line in pathlib.Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def facts(root: pathlib.Path, scratch: pathlib.Path) -> dict:
    commit = _output("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if commit != "unknown" and _output("git", "--no-optional-locks", "-C", str(root), "status", "--porcelain", "--", "src", "proto", "bench"):
        commit += " with changes"
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": _output("findmnt", "-n", "-o", "FSTYPE,SOURCE,OPTIONS", "-T", str(scratch)),
        "load_average_before": round(os.getloadavg()[0], 2),
        "commit": commit,
        "lance_context": importlib.metadata.version("lance-context"),
        "pylance": importlib.metadata.version("pylance"),
        "python": platform.python_version(),
    }
