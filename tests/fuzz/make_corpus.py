"""Writes the seed corpora of the fuzzers to corpus/: real files of pylance, of the original store and of our own server.

    make_corpus.py [OUT_DIR]        SARISSA_BIN names the server (default build/release/sarissa)

Files made by a fuzzer (crash-*) are left alone. Values follow from a seed, the ids that the writers draw do not.
"""

import datetime
import json
import pathlib
import random
import sys
import tempfile

import lance
import pyarrow as pa
from lance.file import LanceFileWriter

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness.http_api import multipart  # noqa: E402
from harness.original import FLUSH, VANISH, add, run_original  # noqa: E402
from harness.records import EMPTY, FULL, MINIMAL  # noqa: E402
from harness.server import Server  # noqa: E402

LARGEST = 24 << 10


class Corpus:
    def __init__(self, out: pathlib.Path):
        self.out = out
        for folder in out.iterdir() if out.exists() else []:
            for path in folder.glob("seed-*"):
                path.unlink()

    def add(self, target: str, name: str, content: bytes) -> None:
        if 0 < len(content) <= LARGEST:
            folder = self.out / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"seed-{name}").write_bytes(content)

    def add_tree(self, prefix: str, root: pathlib.Path) -> None:
        """The files of a table's directory, each to the target that reads its kind."""
        for number, path in enumerate(sorted(root.rglob("*"))):
            name = f"{prefix}-{number}"
            if path.is_dir():
                continue
            content = path.read_bytes()
            if path.suffix == ".manifest":
                self.add("table_manifest", name, content)
            elif path.suffix == ".binpb":
                self.add("shard_manifest", name, content)
            elif path.parent.name == "_deletions":
                self.add("deletion_vector", name, content)
            elif path.parent.name == "wal":
                self.add("log_entry", name, content)
            elif path.name == "_sarissa_positions.bin":
                self.add("position_sidecar", name, content)
            elif path.suffix == ".lance" and path.is_file():
                self.add("data_file", name, content)


def columns(rng: random.Random, rows: int) -> dict[str, pa.Array]:
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(30)]
    text = lambda count: " ".join(rng.choices(words, k=count))  # noqa: E731
    every = lambda values, k: [None if i % k == 0 else v for i, v in enumerate(values)]  # noqa: E731
    struct = pa.struct([("role", pa.utf8()), ("tokens", pa.list_(pa.int32()))])
    messages = [None if i % 9 == 0 else [{"role": text(1), "tokens": [i, j]} for j in range(i % 3)] for i in range(rows)]
    return {
        "ints": pa.array(every([rng.getrandbits(40) for _ in range(rows)], 7), pa.int64()),
        "small": pa.array([i % 5 for i in range(rows)], pa.int32()),
        "runs": pa.array([i // 50 for i in range(rows)], pa.int32()),
        "few": pa.array([[10**12, 7, -5 * 10**15][rng.randrange(3)] for _ in range(rows)], pa.int64()),
        "same": pa.array(every(["the same string"] * rows, 11), pa.utf8()),
        "bool": pa.array(every([i % 3 == 0 for i in range(rows)], 4), pa.bool_()),
        "floats": pa.array(every([rng.random() for _ in range(rows)], 5), pa.float32()),
        "text": pa.array([text(5) for _ in range(rows)], pa.utf8()),
        "large": pa.array(every([text(3) for _ in range(rows)], 3), pa.large_utf8()),
        "role": pa.array([words[rng.randrange(4)] for _ in range(rows)]).dictionary_encode().cast(
            pa.dictionary(pa.int8(), pa.utf8())),
        "wide": pa.array([text(200) if i < 4 else "" for i in range(min(rows, 40))], pa.large_binary()),
        "vector": pa.array(every([[rng.random() for _ in range(4)] for _ in range(rows)], 6), pa.list_(pa.float32(), 4)),
        "lists": pa.array(every([list(range(i % 6)) for i in range(rows)], 8), pa.list_(pa.int32())),
        "messages": pa.array(messages, pa.list_(struct)),
        "struct": pa.array(every([{"role": text(1), "tokens": [i]} for i in range(rows)], 4), struct),
        "nothing": pa.array([None] * rows, pa.float64()),
        "time": pa.array([datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=i) for i in range(rows)],
                         pa.timestamp("us")),
    }


def add_data_files(corpus: Corpus, scratch: pathlib.Path) -> None:
    for version in ("2.1", "2.2"):
        rng = random.Random(3)
        for rows in (3, 150, 1100):
            made = columns(rng, rows)
            if rows == 1100:
                made = {name: made[name] for name in ("small", "runs", "few", "bool", "same", "role", "nothing")}
            for name, array in made.items():
                path = scratch / f"{name}.lance"
                table = pa.table({name: array})
                with LanceFileWriter(str(path), table.schema, version=version) as writer:
                    writer.write_batch(table)
                corpus.add("data_file", f"{name}-{rows}-{version}", path.read_bytes())
    for path in sorted((HERE.parent / "lance" / "data").glob("long_*.lance")):
        corpus.add("data_file", path.stem, path.read_bytes())


def add_tables(corpus: Corpus, scratch: pathlib.Path) -> None:
    table = pa.table({"id": pa.array(range(20_000), pa.int64())})
    dataset = lance.write_dataset(table, scratch / "deleted", data_storage_version="2.1")
    dataset.delete("id % 100 = 3")
    dataset.delete("id % 3 = 0")
    dataset.delete("id >= 9000 and id < 19000")
    dataset.create_scalar_index("id", "BTREE")
    lance.write_dataset(table.slice(0, 5), scratch / "deleted", mode="append")
    dataset = lance.dataset(scratch / "deleted")
    dataset.add_columns({"twice": "id * 2"})
    corpus.add_tree("pylance", scratch / "deleted")


RECORDS = [FULL, MINIMAL, EMPTY, {**MINIMAL, "id": "second", "role": "tool", "reward": 1.5, "output_tokens": [1, 2, 3]}]


def add_server_files(corpus: Corpus, scratch: pathlib.Path) -> None:
    server = Server(scratch / "server").start()
    try:
        api = server.api()
        api.create("corpus").expect(201)
        api.append("corpus", RECORDS).expect(201)
        api.append("corpus", [MINIMAL]).expect(201)
        api.append("corpus", [{**FULL, "id": f"n{i}"} for i in range(5)], flush=True).expect(201)
        api.append_multipart("corpus", [{"id": "blob", "rollout_id": "r"}], [(0, b"payload" * 20)], flush=True).expect(201)
        api.append("corpus", [MINIMAL]).expect(201)
    finally:
        server.discard()
    corpus.add_tree("server", server.data_dir)


def add_original_files(corpus: Corpus, scratch: pathlib.Path) -> None:
    path = scratch / "original.lance"
    run_original(path, add(RECORDS), FLUSH, add([MINIMAL, {**FULL, "id": "late"}]), VANISH)
    corpus.add_tree("original", path)


def arrow_stream(table: pa.Table, **options) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue().to_pybytes()


def add_bodies(corpus: Corpus) -> None:
    inline = {**MINIMAL, "binary_payload": "cGF5bG9hZA==", "payload_size": 7}
    bodies = {"full": RECORDS, "minimal": [MINIMAL], "inline": [inline], "many": [{**MINIMAL, "id": f"{i}"} for i in range(20)]}
    for name, records in bodies.items():
        corpus.add("json_append", name, json.dumps({"records": records}).encode())
    corpus.add("json_append", "unicode", json.dumps({"records": [FULL]}, ensure_ascii=False, indent=1).encode())

    relationship = pa.struct([("target_id", pa.utf8()), ("relation", pa.utf8()), ("weight", pa.float32())])
    types = {
        "id": pa.utf8(), "rollout_id": pa.dictionary(pa.int32(), pa.utf8()), "problem_id": pa.large_utf8(), "sequence_order": pa.int32(),
        "role": pa.dictionary(pa.int8(), pa.utf8()), "created_at": pa.timestamp("us"), "content": pa.large_utf8(),
        "metadata": pa.utf8(), "input_tokens": pa.list_(pa.int32()), "output_logprobs": pa.large_list(pa.float32()),
        "loss_mask": pa.list_(pa.int8()), "reward": pa.float32(), "include_in_training": pa.bool_(),
        "relationships": pa.list_(relationship), "binary_payload": pa.binary(), "payload_size": pa.int64(),
    }
    rows = [{"id": f"i{i}", "rollout_id": f"r{i % 2}", "problem_id": None if i % 2 else "p", "sequence_order": i, "role": "tool",
             "created_at": datetime.datetime(2024, 1, 1, 0, 0, i), "content": "text", "metadata": '{"b": 1, "a": [null]}',
             "input_tokens": list(range(i)), "output_logprobs": [0.5] * i, "loss_mask": [1], "reward": 1.5, "include_in_training": True,
             "relationships": [{"target_id": "t", "relation": "x", "weight": None}] * (i % 3), "binary_payload": b"xyz",
             "payload_size": 3} for i in range(7)]
    for name, kind in types.items():
        chosen = {"id": pa.utf8(), "rollout_id": pa.utf8(), name: kind}
        table = pa.Table.from_pylist(rows, schema=pa.schema(list(chosen.items())))
        corpus.add("arrow_append", name, arrow_stream(table))
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))
    corpus.add("arrow_append", "all", arrow_stream(table))
    corpus.add("arrow_append", "lz4", arrow_stream(table, compression="lz4"))
    corpus.add("arrow_append", "zstd", arrow_stream(table, compression="zstd"))

    for name, parts in {"none": [], "one": [(0, b"bytes")], "two": [(0, b"a\r\n--b"), (1, b"")], "nameless": [(None, b"x")]}.items():
        body, content_type = multipart([MINIMAL], parts)
        boundary = content_type.split("boundary=")[1]
        corpus.add("multipart", name, body.replace(boundary.encode(), b"b"))
        corpus.add("multipart", f"type-{name}", content_type.encode())


def main() -> None:
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus"
    corpus = Corpus(out)
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        add_data_files(corpus, scratch)
        add_tables(corpus, scratch)
        add_server_files(corpus, scratch)
        add_original_files(corpus, scratch)
        add_bodies(corpus)
    for folder in sorted(out.iterdir()):
        files = list(folder.iterdir())
        print(f"{folder.name}: {len(files)} files, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
