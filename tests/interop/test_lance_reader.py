"""Our reader of Lance data files against pylance: what pylance and lance_context write, we read, value for value.

SARISSA_BUILD: build directory that holds lance_read_tool (default build/release).
SARISSA_SHARED: folder with fixtures/make_lance_fixtures.py (default ../shared); used if it exists.
SARISSA_SEED, SARISSA_TABLES: seed and number of random tables (default: a fixed seed, 150 of each file version).
"""

import decimal
import glob
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("SARISSA_SHARED", ROOT.parent / "shared"))
SEED = int(os.environ.get("SARISSA_SEED", "20250717"))
TABLES = int(os.environ.get("SARISSA_TABLES", "150"))


class Tool:
    """One lance_read_tool process that answers many requests."""

    def __init__(self, binary, scratch):
        self.output = str(scratch / "out.arrow")
        self.process = subprocess.Popen([str(binary), "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, path, *options):
        self.process.stdin.write("\t".join([str(path), self.output, *map(str, options)]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer, f"the reader died on {path} {options}"
        return answer

    def read(self, path, *options):
        answer = self.ask(path, *options)
        assert answer == "ok", f"{path} {options}: {answer}"
        with pa.OSFile(self.output) as file:
            return pa.ipc.open_file(file).read_all()


@pytest.fixture(scope="module")
def tool(find_tool, tmp_path_factory):
    made = Tool(find_tool("lance_read_tool"), tmp_path_factory.mktemp("reader"))
    yield made
    made.process.stdin.close()
    assert made.process.wait(30) == 0


def plain(column):
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.to_pylist()


def same(got, want, where):
    assert got.num_rows == want.num_rows, f"{where}: {got.num_rows} rows instead of {want.num_rows}"
    assert got.column_names == want.column_names, where
    for name in want.column_names:
        a, b = got[name], want[name]
        assert a.type == b.type, f"{where}.{name}: {a.type} instead of {b.type}"
        if not pa.types.is_dictionary(a.type) and a.equals(b):
            continue
        x, y = plain(a), plain(b)
        if repr(x) != repr(y):  # repr: NaN is NaN, -0.0 is not 0.0
            at = next(i for i in range(len(y)) if repr(x[i]) != repr(y[i]))
            pytest.fail(f"{where}.{name} ({a.type}) row {at}: {x[at]!r:.200} instead of {y[at]!r:.200}")


def write(path, table, version, batch_rows=None, cache=None):
    with LanceFileWriter(str(path), table.schema, version=version, data_cache_bytes=cache) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows or max(1, table.num_rows)):
            writer.write_batch(batch)


def check_parts(tool, path, want, rng, where, parts=4):
    """Ranges and takes of a file whose whole content is `want`."""
    rows = want.num_rows
    for _ in range(parts if rows else 0):
        first = rng.randrange(rows)
        end = min(rows, first + 1 + int(rng.expovariate(1 / (1 + rows / 8))))
        same(tool.read(path, "--rows", f"{first}:{end}"), want.slice(first, end - first), f"{where} rows {first}:{end}")
        picked = sorted(rng.sample(range(rows), rng.randint(1, min(rows, 40))))
        got = tool.read(path, "--take", ",".join(map(str, picked)))
        same(got, want.take(pa.array(picked)), f"{where} take {picked}")


# ------------------------------------------------------------------ random tables


class Values:
    """Random values of a type, drawn so that every encoding gets its turn: runs, few values, small numbers, noise."""

    def __init__(self, rng, version):
        self.rng = rng
        self.maps = version != "2.1"
        self.words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=rng.randint(1, 9))) for _ in range(40)]

    def leaf_type(self):
        rng = self.rng
        return rng.choice([
            pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
            pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.utf8(), pa.large_utf8(), pa.binary(), pa.large_binary(),
            pa.utf8(), pa.large_binary(), pa.int32(), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"),
            pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.duration("ms"), pa.decimal128(20, 4), pa.binary(16), pa.binary(40),
            pa.list_(pa.float32(), rng.choice([2, 4, 70])), pa.list_(pa.int32(), 3), pa.list_(pa.bool_(), 5),
        ])

    def type(self, depth=0):
        roll = self.rng.random()
        if depth >= 3 or roll < 0.55:
            return self.leaf_type()
        if roll < 0.75:
            return self.rng.choice([pa.list_, pa.large_list])(self.type(depth + 1))
        if roll < 0.95 or not self.maps:
            return pa.struct([(f"f{i}", self.type(depth + 1)) for i in range(self.rng.randint(1, 3))])
        return pa.map_(pa.utf8(), self.type(depth + 1))

    def leaf(self, t, style):
        rng = self.rng
        few = style in ("few", "constant", "runs")
        if pa.types.is_boolean(t):
            return rng.random() < (0.5 if not few else 0.05)
        if pa.types.is_integer(t):
            bits = t.bit_width
            if few or style == "small":
                return rng.choice([0, 1, 5, 90]) if few else rng.randrange(min(2 ** (bits - 1), 1000))
            signed = pa.types.is_signed_integer(t)
            return rng.getrandbits(bits) - (2 ** (bits - 1) if signed else 0)
        if pa.types.is_floating(t):
            value = rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf")]) if few else rng.uniform(-1e4, 1e4)
            return value if t != pa.float16() else float(pa.scalar(value, pa.float32()).cast(pa.float16()).as_py())
        if pa.types.is_string(t) or pa.types.is_large_string(t):
            if few:
                return rng.choice(self.words[:4])
            size = rng.choice([0, 1, 3, 8]) if style == "small" else rng.choice([2, 6, 30, 200])
            return " ".join(rng.choices(self.words, k=size))
        if pa.types.is_fixed_size_binary(t):
            return bytes([rng.randrange(3)]) * t.byte_width if few else rng.randbytes(t.byte_width)
        if pa.types.is_binary(t) or pa.types.is_large_binary(t):
            if few:
                return rng.choice([b"", b"x", b"yy"])
            return rng.randbytes(rng.choice([0, 3, 20]) if style == "small" else rng.choice([4, 300, 2000]))
        if pa.types.is_decimal(t):
            return decimal.Decimal(rng.randrange(-10**9, 10**9) if not few else rng.randrange(3)).scaleb(-4)
        if pa.types.is_fixed_size_list(t):
            null_items = rng.random() < 0.2 and style == "small"
            return [None if null_items and rng.random() < 0.3 else self.leaf(t.value_type, style) for _ in range(t.list_size)]
        if pa.types.is_date64(t):
            return pa.scalar(rng.randrange(20000) * 86400000, pa.int64()).cast(t)
        if pa.types.is_time(t):
            value = rng.randrange(1000 if few else 86399999)
            return pa.scalar(value, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
        value = rng.choice([7, 8]) if few else rng.randrange(2**31 - 1)
        return pa.scalar(value, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)

    def value(self, t, style, nulls):
        rng = self.rng
        if rng.random() < nulls:
            return None
        if pa.types.is_map(t):
            size = rng.choice([0, 1, 3])
            return [(f"{rng.choice(self.words)}{i}", self.value(t.item_type, style, nulls)) for i in range(size)]
        if pa.types.is_list(t) or pa.types.is_large_list(t):
            size = rng.choice([0, 1, 2, 7]) if rng.random() < 0.995 else 300
            return [self.value(t.value_type, style, nulls) for _ in range(size)]
        if pa.types.is_struct(t):
            return {field.name: self.value(field.type, style, nulls) for field in t}
        return self.leaf(t, style)

    def column(self, t, rows):
        style = self.rng.choice(["noise", "small", "few", "runs", "constant", "null"])
        nulls = self.rng.choice([0, 0, 0.02, 0.3, 0.9])
        if style == "null":
            return pa.array([None] * rows, t)
        if style == "constant":
            one = self.value(t, style, 0)
            return pa.array([None if self.rng.random() < nulls else one for _ in range(rows)], t)
        values = []
        while len(values) < rows:
            run = self.rng.choice([1, 2, 50, 600]) if style == "runs" else 1
            values += [self.value(t, style, nulls)] * min(run, rows - len(values))
        return pa.array(values, t)

    def table(self):
        rows = self.rng.choice([1, 2, 9, 130, 130, 700, 700, 2500])
        columns = {}
        for i in range(self.rng.randint(1, 5)):
            t = self.type()
            heavy = pa.types.is_nested(t) or pa.types.is_binary(t) or pa.types.is_large_binary(t)
            columns[f"c{i}"] = (t, heavy)
        if any(heavy for _, heavy in columns.values()):
            rows = min(rows, 400)
        table = {name: self.column(t, rows) for name, (t, _) in columns.items()}
        if self.rng.random() < 0.2:
            pool = pa.array(self.rng.choices(self.words[:20], k=rows), pa.utf8())
            index = self.rng.choice([pa.int8(), pa.int32(), pa.uint16()])
            table["dict"] = pool.dictionary_encode().cast(pa.dictionary(index, pa.utf8()))
        return pa.table(table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_random_tables(tool, tmp_path, version):
    print(f"SARISSA_SEED={SEED} SARISSA_TABLES={TABLES}")
    compared = 0
    for number in range(TABLES):
        seed = f"{SEED}/{version}/{number}"
        rng = random.Random(seed)
        table = Values(rng, version).table()
        path = tmp_path / "random.lance"
        many_pages = rng.random() < 0.35
        try:
            batch = rng.choice([7, 60, 500]) if many_pages else None
            write(path, table, version, batch, 1 if many_pages else None)
        except BaseException as error:  # pylance refuses some types in some versions, or panics on them
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            print(f"{seed}: not written: {error}"[:300])
            continue
        same(tool.read(path), table, f"table {seed}")
        check_parts(tool, path, table, rng, f"table {seed}", parts=2)
        compared += 1
    assert compared >= TABLES * 0.8, f"only {compared} tables could be written"


# ------------------------------------------------------------------ chosen tables


def rollout_like(rows, rng):
    message = pa.struct([("role", pa.utf8()), ("content", pa.utf8()), ("tokens", pa.list_(pa.int32()))])
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 8))) for _ in range(300)]
    text = lambda n: " ".join(rng.choices(words, k=n))
    roles = ["user", "assistant", "tool"]
    return pa.table({
        "id": pa.array([f"{rng.getrandbits(64):016x}" for _ in range(rows)]),
        "step": pa.array(range(rows), pa.int64()),
        "role": pa.array(rng.choices(roles, k=rows)).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.utf8())),
        "reward": pa.array([rng.random() if i % 10 else None for i in range(rows)], pa.float64()),
        "tokens": pa.array([[rng.randrange(50000) for _ in range(rng.randrange(200))] for _ in range(rows)], pa.list_(pa.int32())),
        "messages": pa.array([[{"role": roles[j % 3], "content": text(rng.randrange(30)),
                                "tokens": None if j % 2 else list(range(j))} for j in range(rng.randrange(5))] for _ in range(rows)],
                             pa.list_(message)),
        "payload": pa.array([rng.randbytes(100 + rng.randrange(900)) if i % 6 else None for i in range(rows)], pa.large_binary()),
        "embedding": pa.array([[rng.random() for _ in range(96)] if i % 8 else None for i in range(rows)], pa.list_(pa.float32(), 96)),
        "text": pa.array([text(rng.randrange(60)) for _ in range(rows)], pa.large_utf8()),
        "nothing": pa.array([None] * rows, pa.utf8()),
        "null": pa.nulls(rows),
    })


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("rows", [1, 300, 4000])
def test_rollout_like_tables(tool, tmp_path, version, rows):
    rng = random.Random(SEED + rows)
    table = rollout_like(rows, rng)
    path = tmp_path / "rollout.lance"
    write(path, table, version, 1000)
    same(tool.read(path), table, "whole")
    same(tool.read(path, "--batch", 77), table, "in batches")
    check_parts(tool, path, table, rng, "parts", 10)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_large_values(tool, tmp_path, version):
    rng = random.Random(SEED)
    noise = [rng.randbytes(3 << 20), b"", None, rng.randbytes(1 << 20), b"x" * (2 << 20), b"y"]
    table = pa.table({"id": pa.array(range(6)), "b": pa.array(noise, pa.large_binary()),
                      "t": pa.array(["word " * (i * 30000) for i in range(6)], pa.utf8()),
                      "l": pa.array([[v, b"z"] for v in noise], pa.list_(pa.large_binary()))})
    path = tmp_path / "large.lance"
    write(path, table, version)
    same(tool.read(path), table, "whole")
    for row in range(6):
        same(tool.read(path, "--take", row), table.slice(row, 1), f"row {row}")
        same(tool.read(path, "--rows", f"{row}:{row + 1}"), table.slice(row, 1), f"row {row}")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_lists_that_cross_chunks(tool, tmp_path, version):
    rng = random.Random(SEED)
    lengths = [3, 0, 9000, 2, 0, 1, 5000, 700, 700, 1] + [rng.randrange(40) for _ in range(2000)]
    values = [[rng.randrange(1 << 20) for _ in range(n)] for n in lengths]
    values[4] = None
    table = pa.table({"l": pa.array(values, pa.list_(pa.int32())), "ll": pa.array([[v, []] for v in values], pa.list_(pa.list_(pa.int32()))),
                      "e": pa.array([[] if i % 500 else [1] for i in range(len(values))], pa.list_(pa.int8()))})
    path = tmp_path / "long.lance"
    write(path, table, version)
    same(tool.read(path), table, "whole")
    check_parts(tool, path, table, rng, "parts", 25)
    for row in range(12):
        same(tool.read(path, "--take", row), table.slice(row, 1), f"row {row}")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_of_one_column_with_differing_layers(tool, tmp_path, version):
    some, full = [{"l": [1, 2], "x": "a"}, None, {"l": None, "x": None}], [{"l": [i], "x": "b"} for i in range(3)]
    t = pa.struct([("l", pa.list_(pa.int32())), ("x", pa.utf8())])
    table = pa.concat_tables([pa.table({"s": pa.array(part * 40, t)}) for part in (some, full, some, [None] * 3)])
    path = tmp_path / "layers.lance"
    write(path, table, version, 120, 1)
    same(tool.read(path), table, "whole")
    check_parts(tool, path, table, random.Random(SEED), "parts", 10)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_dictionary_over_pages(tool, tmp_path, version):
    t = pa.dictionary(pa.int8(), pa.utf8())
    parts = [[f"role{k}" if k % 7 else None for k in range(page * 20, page * 20 + 40)] * 5 for page in range(5)]
    table = pa.concat_tables([pa.table({"d": pa.array(p, pa.utf8()).dictionary_encode().cast(t)}) for p in parts])
    path = tmp_path / "dictionary.lance"
    write(path, table, version, 200, 1)
    same(tool.read(path), table, "whole")
    check_parts(tool, path, table, random.Random(SEED), "parts")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_more_distinct_values_than_the_index_type_holds(tool, tmp_path, version):
    t = pa.dictionary(pa.int8(), pa.utf8())
    parts = [[f"role{k}" for k in range(page * 100, page * 100 + 100)] for page in range(2)]
    path = tmp_path / "dictionary.lance"
    with LanceFileWriter(str(path), pa.schema([("d", t)]), version=version, data_cache_bytes=1) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array(part).dictionary_encode().cast(t)], ["d"]))
    answer = tool.ask(path)
    assert answer.startswith("unsupported:") and "128 distinct values" in answer
    fits = tool.read(path, "--rows", "50:150")
    assert fits["d"].type == t and plain(fits["d"]) == (parts[0] + parts[1])[50:150]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compression_by_field_metadata(tool, tmp_path, version, compression):
    rng = random.Random(SEED)
    meta = {"lance-encoding:compression": compression, "lance-encoding:bss": "on"}
    columns = {"i": pa.array([rng.randrange(100) for _ in range(5000)], pa.int64()),
               "f": pa.array([rng.random() for _ in range(5000)], pa.float64()),
               "s": pa.array([f"value {rng.randrange(900)}" for _ in range(5000)]),
               "w": pa.array([f"{rng.randrange(9)} " * 200 for _ in range(5000)])}
    table = pa.table(list(columns.values()),
                     schema=pa.schema([pa.field(n, a.type, metadata=meta) for n, a in columns.items()]))
    path = tmp_path / "compressed.lance"
    write(path, table, version)
    same(tool.read(path), table, "whole")
    check_parts(tool, path, table, rng, "parts")


def test_version_2_0_is_refused_by_name(tool, tmp_path):
    path = tmp_path / "old.lance"
    write(path, pa.table({"a": [1, 2]}), "2.0")
    answer = tool.ask(path)
    assert answer.startswith("unsupported:") and "2.0" in answer


def test_what_is_not_a_lance_file_is_refused(tool, tmp_path):
    for content in (b"", b"LANC", b"x" * 1000):
        path = tmp_path / "no.lance"
        path.write_bytes(content)
        assert tool.ask(path).startswith("corrupt:")


# ------------------------------------------------------------------ files of others


def whole_file(path):
    return LanceFileReader(str(path)).read_all().to_table()


def test_shared_fixtures(tool, tmp_path):
    maker = SHARED / "fixtures" / "make_lance_fixtures.py"
    if not maker.exists():
        print(f"no {maker}: nothing to compare")
        return
    subprocess.run([sys.executable, str(maker), str(tmp_path / "fixtures")], check=True, stdout=subprocess.DEVNULL)
    files = sorted(glob.glob(str(tmp_path / "fixtures" / "*" / "data" / "*.lance")))
    files += sorted(glob.glob(str(tmp_path / "fixtures" / "*" / "_indices" / "*" / "*.lance")))
    read = 0
    for path in files:
        if "@2.0" in path:
            answer = tool.ask(path)
            assert answer.startswith("unsupported:") and "2.0" in answer
            continue
        try:
            want = whole_file(path)
        except Exception as error:
            pytest.fail(f"pylance does not read {path}: {error}")
        same(tool.read(path), want, path)
        check_parts(tool, path, want, random.Random(path), path, 3)
        read += 1
    assert read >= 29


def rollouts(rng, count, first):
    roles = ["user", "assistant", "tool", "system"]
    words = ["".join(rng.choices("abcdefghijkl", k=rng.randint(2, 9))) for _ in range(200)]
    for i in range(first, first + count):
        record = {"id": f"r-{i:06d}", "problem_id": f"p{i % 17}", "rollout_id": f"run-{i % 5}", "role": roles[i % 4],
                  "source": "test", "sequence_index": i, "content_type": "text/plain",
                  "text_payload": " ".join(rng.choices(words, k=rng.choice([3, 40, 400, 9000]))),
                  "metadata": {"i": i, "note": rng.choice(words)}}
        if i % 3 == 0:
            record.update(token_ids=[rng.randrange(50000) for _ in range(rng.randrange(300))],
                          token_logprobs=[-rng.random() for _ in range(20)], reward=rng.random(), passed=i % 2 == 0)
        if i % 5 == 0:
            record["binary_payload"] = rng.randbytes(rng.choice([10, 5000, 60000]))
        yield record


def test_stores_of_lance_context(tool, tmp_path):
    """Generation files (2.1) and base files of the original."""
    from lance_context import RolloutStore

    rng = random.Random(SEED)
    read = 0
    for count in (1, 40, 1200):
        root = tmp_path / f"store{count}"
        store = RolloutStore.open(str(root))
        fields = None
        for first in (0, count):
            records = list(rollouts(rng, count, first))
            if fields is not None:
                records = [{k: v for k, v in r.items() if k in fields} for r in records]
            store.add(records)
            store.flush()
        files = sorted(glob.glob(str(root / "**" / "data" / "*.lance"), recursive=True))
        assert any("_gen_" in f for f in files), files
        for path in files:
            want = whole_file(path)
            same(tool.read(path), want, path)
            check_parts(tool, path, want, rng, path, 4)
            read += 1
    assert read >= 6
