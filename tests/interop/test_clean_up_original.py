"""Clean-up of a shard that the original (lance-context 0.6.7) writes, too.

Two promises. A writer of the original that lost the shard and does not know it never acknowledges a row into a slot that was
cleaned up: its add collides with the sentinel that was left for it, and it either claims anew or fails. And whatever the version
hint says while manifests are being removed, the original finds the newest manifest or fails loudly; it never goes on from an old one.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from harness import lance_files

SHARD = lance_files.DEFAULT_SHARD

ORIGINAL = """
import json, sys
from lance_context import RolloutStore
store = RolloutStore.open(sys.argv[1])
for line in sys.stdin:
    step, _, argument = line.strip().partition(" ")
    try:
        if step == "add":
            store.add([{"id": argument, "rollout_id": "r"}])
            answer = None
        elif step == "flush":
            answer = store.flush()
        elif step == "list":
            answer = sorted(row["id"] for row in store.list())
        print("ok", json.dumps(answer), flush=True)
    except Exception as error:
        print("error", str(error).replace(chr(10), " "), flush=True)
"""


class Session:
    """A process that answers each line with one line; it keeps its claim until it ends."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **environment})

    def ask(self, line: str) -> tuple[bool, str]:
        """Whether it succeeded, and what it said; (False, "") when the process ended."""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False, ""
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        return word == "ok", rest

    def do(self, line: str) -> str:
        done, said = self.ask(line)
        assert done, f"{line}: {said}"
        return said

    def end(self) -> int:
        self.process.stdin.close()
        code = self.process.wait(timeout=120)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin = self.process.stdin if self.process.stdin.closed else None
        self.process.stdout.close()


def original(store: pathlib.Path) -> Session:
    return Session(sys.executable, "-u", "-c", ORIGINAL, store)


@pytest.fixture(scope="module")
def ours(find_tool):
    tool = find_tool("memwal_tool")
    return lambda store, **environment: Session(tool, store.parent, store.name, SHARD, **environment)


def listed(store: pathlib.Path) -> list[str]:
    with original(store) as reader:
        return sorted(json.loads(reader.do("list")))


def manifest_dir(store: pathlib.Path) -> pathlib.Path:
    return store / "_mem_wal" / SHARD / "manifest"


def log(store: pathlib.Path) -> list[int]:
    return [entry.position for entry in lance_files.log_entries(store / "_mem_wal" / SHARD)]


def wait_for_log(store: pathlib.Path, there) -> None:
    """An add of 0.6.7 returns before its log entry is written; until it is there, the row is lost whenever anybody claims."""
    deadline = time.monotonic() + 60
    while not any(there(entry) for entry in lance_files.log_entries(store / "_mem_wal" / SHARD)):
        assert time.monotonic() < deadline, "the log entry never came"
        time.sleep(0.01)


def wait_for_unflushed_row(store: pathlib.Path) -> None:
    cursor = lance_files.latest_manifest(store / "_mem_wal" / SHARD).replay_after
    wait_for_log(store, lambda entry: entry.rows > 0 and entry.position > cursor)


def ours_rows(session: Session) -> list[str]:
    """Each once: the original writes a row again when it retries."""
    return sorted(set(session.do("rows").split()))


def test_a_stale_writer_of_the_original_never_acknowledges_a_lost_row(tmp_path, ours):
    """One stale writer a round. One that was fenced once, claimed anew inside its process and is fenced again acknowledges
    an add that it never writes, with no clean-up anywhere: a fault of 0.6.7 that files cannot prevent."""
    store = tmp_path / "s.rollout.lance"
    acknowledged = []

    def note(answer: tuple[bool, str], row: str) -> None:
        if answer[0]:
            acknowledged.append(row)

    for turn in range(3):
        with original(store) as stale, ours(store) as writer:
            stale.do(f"add flushed-{turn}")
            stale.do("flush")
            stale.do(f"add logged-{turn}")  # in its memtable and in the log, in no generation
            wait_for_unflushed_row(store)
            acknowledged += [f"flushed-{turn}", f"logged-{turn}"]
            writer.do("open")
            for number in range(8):
                writer.do(f"append ours-{turn}-{number}")
                writer.do("flush")
                acknowledged.append(f"ours-{turn}-{number}")
                if turn == 2 and number == 3:
                    writer.do("cleanup")
            writer.do("cleanup")
            if turn == 1:
                writer.do("close")
                writer.do("open")
                writer.do("cleanup")
            late, _ = stale.ask(f"add late-{turn}")
            # The stale writer claimed anew, or failed: ours is fenced, or goes on. Both are right.
            done, why = writer.ask(f"append last-{turn}")
            note((done, why), f"last-{turn}")
            assert done or why.startswith("fenced"), why
            writer.ask("flush")
            flushed, _ = stale.ask("flush")
            note((late and flushed, ""), f"late-{turn}")
    with ours(store) as writer:
        writer.do("open")
        assert ours_rows(writer) == sorted(acknowledged)
        writer.do("flush")
        writer.do("cleanup")
        claims = lance_files.latest_manifest(store / "_mem_wal" / SHARD).writer_epoch
        assert len(log(store)) <= claims + 1, "a sentinel for each foreign epoch, the tip, and the guard"
        writer.do("close")
    assert listed(store) == sorted(acknowledged)


def test_without_the_sentinel_the_original_loses_an_acknowledged_row(tmp_path, ours):
    """What the held sentinel is for: the same with a forced adoption, which says that no such writer lives."""
    store = tmp_path / "s.rollout.lance"
    with original(store) as stale:
        stale.do("add stale-0")
        stale.do("flush")
        with ours(store) as writer:
            writer.do("open")
            for number in range(3):
                writer.do(f"append ours-{number}")
                writer.do("flush")
            writer.do("adopt")
            stale.do("add lost")
            wait_for_log(store, lambda entry: entry.epoch == 1 and entry.position == 2)  # where the sentinel was
            writer.do("close")
    assert "lost" not in listed(store)


HINTS = {"missing": None, "first": '{"version":1}', "stale": '{"version":3}', "garbage": "rubbish", "high": '{"version":9999}'}


def test_no_hint_at_any_step_makes_the_original_fork(tmp_path, ours):
    """Killed after the n-th removal, then the hint is spoilt, then the original goes on, then we do."""
    built = tmp_path / "built" / "s.rollout.lance"
    built.parent.mkdir()
    rows = ["first"]
    with original(built) as writer:
        writer.do("add first")
        writer.do("flush")
    with ours(built) as writer:
        writer.do("open")
        for number in range(18):
            writer.do(f"append ours-{number}")
            writer.do("flush")
            rows.append(f"ours-{number}")
        writer.do("append unflushed")
        rows.append("unflushed")
    loud = right = 0
    for step in range(1, 100):
        cut = tmp_path / "cut" / "s.rollout.lance"
        shutil.copytree(built, cut)
        with ours(cut, SARISSA_KILL_AT=f"cleanup.after_delete:{step}") as cleaner:
            finished, _ = cleaner.ask("cleanup")
            code = cleaner.end() if finished else cleaner.process.wait(timeout=60)
        assert code in (0, -signal.SIGKILL)
        removing_manifests = lance_files.number_of(min(manifest_dir(cut).glob("*.binpb"), key=lance_files.number_of)) > 1
        # Log entries go first and one is like another: two of them, and every manifest.
        for name, text in HINTS.items() if removing_manifests or step in (1, 11) else []:
            store = tmp_path / name / "s.rollout.lance"
            shutil.copytree(cut, store)
            hint = manifest_dir(store) / "version_hint.json"
            hint.unlink() if text is None else hint.write_text(text)
            # Tried again, as a supervisor would: each failed claim leaves a manifest and a hint of its own.
            for _ in range(3):
                with original(store) as writer:
                    shown, _ = writer.ask("list")
                    added, why = writer.ask("add late")
                    flushed = added and writer.ask("flush")[0]
                if added:
                    break
            expected = rows + ["late"] if added else rows
            if added:
                right += 1
                assert flushed and shown
                assert listed(store) == sorted(expected), f"a fork: step {step}, hint {name}"
            else:
                loud += 1
                assert why, f"step {step}, hint {name}"
            # Whatever the original did, ours finds everything and puts the hint right.
            with ours(store) as writer:
                writer.do("open")
                assert ours_rows(writer) == sorted(expected), f"step {step}, hint {name}, original said: {why}"
                writer.do("append healed")
                writer.do("flush")
                writer.do("cleanup")
                writer.do("close")
            assert listed(store) == sorted(expected + ["healed"]), f"step {step}, hint {name}"
            shutil.rmtree(store.parent)
        shutil.rmtree(cut.parent)
        if finished:
            break
    assert finished and step > 20
    assert loud > 0 and right > 0


def test_a_cleaned_store_goes_back_and_forth(tmp_path, ours):
    store = tmp_path / "s.rollout.lance"
    rows = []
    for turn in range(6):
        with original(store) as writer:
            writer.do(f"add original-{turn}")
            rows.append(f"original-{turn}")
            wait_for_unflushed_row(store)
            if turn % 2:
                writer.do("flush")
        with ours(store) as writer:
            writer.do("open")
            for number in range(4):
                writer.do(f"append ours-{turn}-{number}")
                writer.do("flush")
                rows.append(f"ours-{turn}-{number}")
            writer.do("cleanup")
            assert ours_rows(writer) == sorted(rows)
        assert listed(store) == sorted(rows)
