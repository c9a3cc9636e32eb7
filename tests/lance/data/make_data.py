"""Writes the Lance files of this folder with pylance: small, and between them most encodings. The values follow from a seed."""

import random
import sys
from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileWriter

OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent


def table(rng):
    rows = 260
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(60)]
    text = lambda n: " ".join(rng.choices(words, k=n))
    every = lambda values, k: [None if i % k == 0 else v for i, v in enumerate(values)]
    struct = pa.struct([("role", pa.utf8()), ("tokens", pa.list_(pa.int32()))])
    messages = [None if i % 9 == 0 else [{"role": text(1), "tokens": None if j else [i, j]} for j in range(i % 3)] for i in range(rows)]
    return pa.table({
        "id": pa.array(range(rows), pa.int64()),
        "noise": pa.array(every([rng.getrandbits(63) for _ in range(rows)], 7), pa.int64()),
        "runs": pa.array([i // 50 for i in range(rows)], pa.int32()),
        "few": pa.array([[10**12, 7, -5 * 10**15][rng.randrange(3)] for _ in range(rows)], pa.int64()),
        "same": pa.array(every(["the same string"] * rows, 11), pa.utf8()),
        "bool": pa.array(every([i % 3 == 0 for i in range(rows)], 4), pa.bool_()),
        "text": pa.array([text(12) for _ in range(rows)], pa.utf8()),
        "role": pa.array([words[rng.randrange(4)] for _ in range(rows)]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.utf8())),
        "few_words": pa.array(every([words[rng.randrange(5)] for _ in range(rows)], 5), pa.large_utf8()),
        "wide": pa.array(every([text(60) if i < 20 else "" for i in range(rows)], 3), pa.large_binary()),
        "vector": pa.array(every([[rng.random() for _ in range(4)] for _ in range(rows)], 6), pa.list_(pa.float32(), 4)),
        "holes": pa.array([[None if (i + j) % 5 == 0 else i for j in range(3)] for i in range(rows)], pa.list_(pa.int16(), 3)),
        "messages": pa.array(messages, pa.list_(struct)),
        "nothing": pa.array([None] * rows, pa.float64()),
    })


def main():
    for version in ("2.1", "2.2"):
        rng = random.Random(5)
        whole = table(rng)
        with LanceFileWriter(str(OUT / f"mixed_{version}.lance"), whole.schema, version=version) as writer:
            writer.write_batch(whole)
        long = pa.table({"l": pa.array([[i] * n for i, n in enumerate([3, 0, 3000, 2, 0, 1, 700])], pa.list_(pa.int32())),
                         "z": pa.array(["zstd " * 8000, None, "x", "", "y" * 40000, None, "w" * 300], pa.utf8())})
        with LanceFileWriter(str(OUT / f"long_{version}.lance"), long.schema, version=version) as writer:
            writer.write_batch(long)


main()
