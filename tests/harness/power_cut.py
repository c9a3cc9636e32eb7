"""What a power cut leaves of a directory: bytes and names that were synced, and of the rest nothing, or as much as chance wants.

A process runs with fault_shim.c preloaded, which writes a journal of names and syncs outside the directory. After the process
was killed, `cut` rewrites the directory from it. The rules are those that POSIX guarantees and no more: a sync of a file keeps
the bytes written before it, a sync of a directory keeps the names given and taken in it before it; a name in a directory
whose own name is not durable is lost with it.
"""

import os
import pathlib
import random
import shutil
from typing import NamedTuple

from harness.faults import shim_library


class Lost(NamedTuple):
    names: int
    bytes: int


class _Node:
    __slots__ = ("inode", "durable_size", "live", "durable", "changes", "applied")

    def __init__(self, inode: int, directory: bool, durable_size: int | None):
        self.inode, self.durable_size = inode, durable_size
        self.live: dict[str, _Node] | None = {} if directory else None
        self.durable: dict[str, _Node] | None = {} if directory else None
        # Changes of names in order; a change that touches two directories stands in both lists.
        self.changes: list[_Change] = []
        self.applied = 0


class _Change:
    """Names that come and go in one step."""

    def __init__(self, taken: list[tuple["_Node", str]], given: list[tuple["_Node", str, "_Node"]]):
        self._taken, self._given, self._done = taken, given, False

    def apply(self) -> None:
        if self._done:
            return
        self._done = True
        for folder, name in self._taken:
            folder.durable.pop(name, None)
        for folder, name, node in self._given:
            folder.durable[name] = node


class PowerCut:
    """One directory. begin(), run the process with `env`, kill it, cut()."""

    def __init__(self, root: pathlib.Path, *, slowest_sync_us: int = 0):
        self.root = pathlib.Path(root).resolve()
        self._journal = self.root.with_name(self.root.name + ".journal")
        self._graveyard = self.root.with_name(self.root.name + ".graveyard")
        self.env = {"LD_PRELOAD": str(shim_library()), "SARISSA_FAULT_JOURNAL": str(self._journal),
                    "SARISSA_FAULT_ROOT": str(self.root), "SARISSA_FAULT_GRAVEYARD": str(self._graveyard),
                    "SARISSA_FAULT_SLOWEST_SYNC_US": str(slowest_sync_us)}

    def begin(self) -> None:
        """Everything that is in the directory now is durable."""
        self.root.mkdir(exist_ok=True)
        shutil.rmtree(self._graveyard, ignore_errors=True)
        self._graveyard.mkdir()
        self._journal.write_bytes(b"")
        self._nodes: dict[int, _Node] = {}
        self._root = self._existing(self.root)

    def cut(self, chance: random.Random | None = None) -> Lost:
        """Without `chance` everything that was not synced is lost; with it, some of it survives: a prefix of the changes of
        each directory, a prefix of the bytes of each file."""
        self._replay()
        places = {int(entry.name): entry.path for entry in os.scandir(self._graveyard)}
        for folder, _, files in os.walk(self.root):
            for name in files:
                path = os.path.join(folder, name)
                places[os.lstat(path).st_ino] = path
        pending = sum(len(node.changes) - node.applied for node in self._nodes.values() if node.live is not None)
        if chance is not None:
            for node in list(self._nodes.values()):
                if node.live is not None:
                    self._apply(node, chance.randint(node.applied, len(node.changes)))
        fresh = self.root.with_name(self.root.name + ".fresh")
        self._lost_bytes = 0
        self._write(self._root, fresh, places, chance)
        shutil.rmtree(self.root)
        fresh.rename(self.root)
        return Lost(pending, self._lost_bytes)

    def _existing(self, path: pathlib.Path) -> _Node:
        node = _Node(os.lstat(path).st_ino, True, None)
        self._nodes[node.inode] = node
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                child = self._existing(entry.path)
            else:
                status = entry.stat(follow_symlinks=False)
                child = self._nodes[status.st_ino] = _Node(status.st_ino, False, status.st_size)
            node.live[entry.name] = node.durable[entry.name] = child
        return node

    def _replay(self) -> None:
        lines = iter(self._journal.read_text().split("\n"))
        syncs: dict[str, tuple[_Node, int, int]] = {}
        for line in lines:
            kind, _, rest = line.partition(" ")
            if kind in ("N", "D"):
                self._nodes[int(rest)] = _Node(int(rest), kind == "D", 0)
            elif kind == "L":
                folder, inode, name = rest.split(" ", 2)
                self._change([], [(self._nodes[int(folder)], name, self._nodes[int(inode)])])
            elif kind == "U":
                folder, name = rest.split(" ", 1)
                self._change([(self._nodes[int(folder)], name)], [])
            elif kind == "R":
                source, target = (self._nodes[int(inode)] for inode in rest.split())
                old, new = next(lines), next(lines)
                self._change([(source, old)], [(target, new, source.live[old])])
            elif kind == "B":
                token, inode, size = rest.split()
                node = self._nodes[int(inode)]
                syncs[token] = (node, int(size), len(node.changes))
            elif kind == "E":
                node, size, changes = syncs.pop(rest)
                if node.live is None:
                    node.durable_size = max(node.durable_size, size)
                else:
                    self._apply(node, changes)

    def _change(self, taken: list[tuple[_Node, str]], given: list[tuple[_Node, str, _Node]]) -> None:
        change = _Change(taken, given)
        for folder, name in taken:
            del folder.live[name]
        for folder, name, node in given:
            folder.live[name] = node
        folders = {id(part[0]): part[0] for part in [*taken, *given]}
        for folder in folders.values():
            folder.changes.append(change)

    def _apply(self, node: _Node, until: int) -> None:
        for change in node.changes[node.applied:until]:
            change.apply()
        node.applied = max(node.applied, until)

    def _write(self, node: _Node, target: pathlib.Path, places: dict[int, str], chance: random.Random | None) -> None:
        os.mkdir(target)
        for name, child in node.durable.items():
            path = os.path.join(target, name)
            if child.durable is not None:
                self._write(child, path, places, chance)
                continue
            source = places[child.inode]
            size = os.path.getsize(source)
            kept = child.durable_size if chance is None or child.durable_size == size else chance.randint(child.durable_size, size)
            if kept == size:
                os.link(source, path)
                continue
            self._lost_bytes += size - kept
            with open(source, "rb") as whole, open(path, "wb") as part:
                part.write(whole.read(kept))
