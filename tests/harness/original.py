"""The original implementation's embedded store (package lance-context) in a process of its own.

A process of its own, because the store has no close: ending the process is the only way to give up its claim on the shard,
and ending it without a flush is the only way to leave rows in its log.
"""

import base64
import json
import pathlib
import subprocess
import sys
from typing import Any, NamedTuple

TIMEOUT_SECONDS = 300


class Original(NamedTuple):
    """What the process saw, in the order of the steps that asked for it."""

    lists: list[list[dict]]
    gets: list[dict | None]
    blobs: list[bytes | None]


def add(records: list[dict]) -> dict:
    return {"do": "add", "records": [
        {**record, "binary_payload": {"base64": base64.b64encode(record["binary_payload"]).decode()}}
        if record.get("binary_payload") is not None else record for record in records]}


FLUSH = {"do": "flush"}
LIST = {"do": "list"}
# The process ends here as if it were killed: no flush, no destructor.
VANISH = {"do": "vanish"}


def get(record_id: str) -> dict:
    return {"do": "get", "id": record_id}


def get_blob(record_id: str) -> dict:
    return {"do": "blob", "id": record_id}


def run_original(store: pathlib.Path, *steps: dict[str, Any]) -> Original:
    """Opens the store at this path (made when absent) and does the steps."""
    done = subprocess.run([sys.executable, "-u", __file__, str(store)], input=json.dumps(list(steps)), text=True,
                          capture_output=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, f"the original store failed on {store}:\n{done.stdout[-1000:]}\n{done.stderr[-4000:]}"
    lists, gets, blobs = [], [], []
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if "list" in answer:
            lists.append(answer["list"])
        elif "get" in answer:
            gets.append(answer["get"])
        elif "blob" in answer:
            blobs.append(None if answer["blob"] is None else base64.b64decode(answer["blob"]))
    return Original(lists, gets, blobs)


class OpenOriginal:
    """The store held open by a process of its own, for steps one at a time; the process vanishes at the end of the block."""

    def __init__(self, store: pathlib.Path):
        self._process = subprocess.Popen([sys.executable, "-u", __file__, str(store), "--one-by-one"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        assert json.loads(self._process.stdout.readline()) == {"open": True}

    def __enter__(self) -> "OpenOriginal":
        return self

    def __exit__(self, *_) -> None:
        self._process.kill()
        self._process.communicate()

    def add(self, records: list[dict]) -> None:
        self._do(add(records))

    def flush(self) -> None:
        self._do(FLUSH)

    def rows(self) -> list[dict]:
        return self._do(LIST)["list"]

    def attempt_add(self, records: list[dict]) -> bool:
        """Whether it says that it did it."""
        return "error" not in self._ask(add(records))

    def attempt_flush(self) -> bool:
        return "error" not in self._ask(FLUSH)

    def _do(self, step: dict) -> dict:
        answer = self._ask(step)
        assert "error" not in answer, f"the original store failed: {answer['error']}"
        return answer

    def _ask(self, step: dict) -> dict:
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the original store's process is gone"
        return json.loads(line)


def _one_by_one(store_path: str) -> None:
    from lance_context import RolloutStore

    store = RolloutStore.open(store_path)
    print(json.dumps({"open": True}))
    for line in sys.stdin:
        try:
            print(json.dumps(_do(store, json.loads(line))))
        except Exception as error:  # noqa: BLE001 - what it raises is its answer
            print(json.dumps({"error": str(error)}))


def _do(store, step: dict) -> dict:
    import os

    answer = {}
    match step["do"]:
        case "add":
            for record in step["records"]:
                if isinstance(record.get("binary_payload"), dict):
                    record["binary_payload"] = base64.b64decode(record["binary_payload"]["base64"])
            store.add(step["records"])
        case "flush":
            store.flush()
        case "list":
            answer = {"list": store.list()}
        case "get":
            answer = {"get": store.get(step["id"])}
        case "blob":
            blob = store.get_blob(step["id"])
            answer = {"blob": None if blob is None else base64.b64encode(blob).decode()}
        case "vanish":
            sys.stdout.flush()
            os._exit(0)
    return answer


def _main(store_path: str, steps: list[dict]) -> None:
    from lance_context import RolloutStore

    store = RolloutStore.open(store_path)
    for step in steps:
        print(json.dumps(_do(store, step)))


if __name__ == "__main__":
    if sys.argv[2:] == ["--one-by-one"]:
        _one_by_one(sys.argv[1])
    else:
        _main(sys.argv[1], json.load(sys.stdin))
