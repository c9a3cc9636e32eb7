"""Data files that our writer makes, read back by pylance.

Run: SARISSA_BUILD=build/release /path/to/python -m pytest tests/interop/test_lance_writer.py
SARISSA_SEED replays a run; SARISSA_TABLES sets the number of random tables per version.
"""

import os
import pathlib
import random
import string
import subprocess
import time

import lance
import lance.file
import pyarrow as pa
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SARISSA_BUILD", ROOT / "build" / "release"))
SEED = int(os.environ.get("SARISSA_SEED", time.time_ns() % 2**31))
TABLES = int(os.environ.get("SARISSA_TABLES", 200))
VERSIONS = ["2.1", "2.2"]


def tool():
    for place in (BUILD / "tests" / "lance_file_tool", BUILD / "lance_file_tool"):
        if place.exists():
            return place if place.is_absolute() else ROOT / place
    raise FileNotFoundError(f"lance_file_tool is not below {BUILD}")


def write(folder, batches, schema, version, **flags):
    source, target = folder / "in.arrow", folder / "out.lance"
    with pa.ipc.new_stream(str(source), schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    command = [str(tool()), "write", str(source), str(target), "--version", version]
    for flag, value in flags.items():
        command += ["--" + flag.replace("_", "-"), str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    source.unlink()
    assert done.returncode == 0, done.stderr
    return target


def read(target):
    return lance.file.LanceFileReader(str(target)).read_all().to_table()


def assert_same(want, got):
    assert got.num_rows == want.num_rows
    for name in want.schema.names:
        a, b = want.column(name), got.column(name)
        if pa.types.is_dictionary(a.type):
            assert b.type == a.type
        want_rows, got_rows = a.to_pylist(), b.to_pylist()
        if want_rows == got_rows:
            continue
        for row, (x, y) in enumerate(zip(want_rows, got_rows)):
            assert repr(x) == repr(y), f"column {name} row {row} of {len(a)}"


# Random tables --------------------------------------------------------------------------------------------------------------

LEAVES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float32(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64(),
    pa.time64("us"), pa.duration("ms"), pa.decimal128(20, 4), pa.string(), pa.large_string(), pa.binary(),
    pa.large_binary(), pa.binary(16), pa.binary(300), pa.list_(pa.float32(), 4), pa.list_(pa.float32(), 100),
    pa.list_(pa.int8(), 3), pa.list_(pa.bool_(), 3), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()), pa.null(),
]  # fmt: skip


def random_field(rng, name, depth):
    kind = random_type(rng, depth)
    return pa.field(name, kind, nullable=pa.types.is_null(kind) or rng.random() < 0.8)


def random_type(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.45:
        return rng.choice(LEAVES)
    if kind < 0.75:
        make = rng.choice([pa.list_, pa.list_, pa.large_list])
        return make(random_field(rng, "item", depth - 1))
    count = rng.randint(1, 3)
    return pa.struct([random_field(rng, f"f{i}", depth - 1) for i in range(count)])


def random_text(rng, longest):
    return "".join(rng.choices(string.ascii_letters + "äß語", k=rng.randint(0, longest)))


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.nulls = rng.choice([0, 0.1, 0.5, 0.95, 1.0])
        self.longest_list = rng.choice([1, 3, 30])
        self.longest_text = rng.choice([3, 30, 600])
        self.empties = rng.choice([0, 0.2, 0.9])

    def length(self):
        return 0 if self.rng.random() < self.empties else self.rng.randint(0, self.longest_list)

    def value(self, kind, nullable):
        rng = self.rng
        if pa.types.is_null(kind) or (nullable and rng.random() < self.nulls):
            return None
        if pa.types.is_struct(kind):
            return {f.name: self.value(f.type, f.nullable) for f in kind}
        if pa.types.is_fixed_size_list(kind):
            if pa.types.is_boolean(kind.value_type) or rng.random() < 0.9:
                return [self.value(kind.value_type, False) for _ in range(kind.list_size)]
            return [self.value(kind.value_type, True) for _ in range(kind.list_size)]
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            item = kind.value_field
            return [self.value(item.type, item.nullable) for _ in range(self.length())]
        if pa.types.is_dictionary(kind):
            return f"word {rng.randint(0, 20)}"
        if pa.types.is_boolean(kind):
            return rng.random() < 0.5
        if pa.types.is_integer(kind):
            bits = kind.bit_width
            return rng.randint(0, 2**bits - 1) if str(kind).startswith("u") else rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if pa.types.is_floating(kind):
            return float(rng.randint(-1000, 1000)) / 4
        if pa.types.is_date64(kind):
            return pa.scalar(rng.randint(0, 20000) * 86400000, pa.int64()).cast(pa.timestamp("ms")).as_py().date()
        if pa.types.is_date32(kind):
            return pa.scalar(rng.randint(0, 20000), pa.int32()).cast(kind).as_py()
        if pa.types.is_temporal(kind):
            return pa.scalar(rng.randint(0, 86399) * 1000, pa.int64()).cast(kind).as_py()
        if pa.types.is_decimal(kind):
            return pa.scalar(rng.randint(-(10**9), 10**9)).cast(pa.decimal128(19, 0)).as_py()
        if pa.types.is_fixed_size_binary(kind):
            return rng.randbytes(kind.byte_width)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return rng.randbytes(rng.randint(0, self.longest_text))
        return random_text(rng, self.longest_text)

    def array(self, field, rows):
        return build([self.value(field.type, field.nullable) for _ in range(rows)], field.type)


def build(values, kind):
    """pa.array, which cannot nest dictionaries or non-null fields in every place."""
    if pa.types.is_struct(kind):
        mask = pa.array([v is None for v in values], pa.bool_())
        children = [build([None if v is None else v[f.name] for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        large = pa.types.is_large_list(kind)
        offsets, items = [0], []
        for v in values:
            items += v or []
            offsets.append(len(items))
        make = pa.LargeListArray if large else pa.ListArray
        return make.from_arrays(
            pa.array(offsets, pa.int64() if large else pa.int32()), build(items, kind.value_type), type=kind,
            mask=pa.array([v is None for v in values], pa.bool_()),
        )  # fmt: skip
    if pa.types.is_dictionary(kind):
        words = sorted({v for v in values if v is not None}, reverse=True) + ["never used"]
        number = {w: i for i, w in enumerate(words)}
        indices = pa.array([None if v is None else number[v] for v in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, pa.array(words, kind.value_type))
    return pa.array(values, kind)


@pytest.mark.parametrize("version", VERSIONS)
def test_random_tables_read_back(tmp_path, version):
    print(f"SARISSA_SEED={SEED}")
    for number in range(TABLES):
        rng = random.Random(f"{SEED}/{version}/{number}")
        maker = Maker(rng)
        fields = [random_field(rng, f"c{i}", rng.randint(0, 3)) for i in range(rng.randint(1, 4))]
        schema = pa.schema(fields)
        batches = []
        for _ in range(rng.randint(1, 3)):
            maker.nulls = rng.choice([0, maker.nulls])
            rows = rng.choice([0, 1, 7, 200, rng.randint(1, 1500)])
            batches.append(pa.record_batch([maker.array(f, rows) for f in fields], schema=schema))
        flags = {"page_bytes": rng.choice([1, 100, 5000, 8 << 20]), "batch_rows": rng.choice([3, 100, 1 << 20])}
        if flags["page_bytes"] == 1:
            batches = [b.slice(0, 60) for b in batches]
        target = write(tmp_path, batches, schema, version, **flags)
        try:
            assert_same(pa.Table.from_batches(batches, schema), read(target))
        except BaseException as error:
            raise AssertionError(f"table {number} of seed {SEED}, {flags}: {schema}") from error


# Single cases ---------------------------------------------------------------------------------------------------------------


def check(tmp_path, version, array, **flags):
    """`array` as a column, alone and cut into sliced batches."""
    field = flags.pop("field", pa.field("c", array.type))
    batch = pa.record_batch([array], schema=pa.schema([field]))
    target = write(tmp_path, [batch], batch.schema, version, **flags)
    got = read(target)
    assert_same(pa.Table.from_batches([batch]), got)
    return got


REQUIRED = pa.struct([pa.field("a", pa.float64(), nullable=False)])
REQUIRED_TOKENS = pa.list_(pa.field("item", pa.int32(), nullable=False))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("inner", [REQUIRED, REQUIRED_TOKENS, pa.struct([pa.field("s", REQUIRED_TOKENS, nullable=False)])])
@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("values", [0, 1])
def test_nulls_above_required_fields(tmp_path, version, inner, in_list, values):
    """A null struct takes required fields with it: in pages that hold nothing else, and in pages with values."""
    kind = pa.struct([pa.field("f", pa.struct([pa.field("g", inner, nullable=False)]), nullable=False)])
    value = {"a": 1.5} if inner == REQUIRED else [1, 2] if inner == REQUIRED_TOKENS else {"s": [3]}
    rows = [None] * 5 + [{"f": {"g": value}}] * values
    check(tmp_path, version, build([rows, None, []] * 3, pa.list_(kind)) if in_list else build(rows, kind))


@pytest.mark.parametrize("version", VERSIONS)
def test_file_without_rows(tmp_path, version):
    schema = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string())), ("c", pa.dictionary(pa.int8(), pa.string()))])
    target = write(tmp_path, [], schema, version)
    got = read(target)
    assert got.num_rows == 0 and got.schema.names == ["a", "b", "c"]


@pytest.mark.parametrize("version", VERSIONS)
def test_value_of_100_megabytes_between_small_ones(tmp_path, version):
    big = os.urandom(1 << 20) * 100
    check(tmp_path, version, pa.array([b"x", None, big, b"", b"y" * 300, big[: 3 << 20]], pa.large_binary()))


@pytest.mark.parametrize("version", VERSIONS)
def test_row_of_two_million_tokens(tmp_path, version):
    tokens = pa.array(range(2_000_000), pa.int32())
    offsets = pa.array([0, 0, 5, 2_000_000, 2_000_000], pa.int32())
    check(tmp_path, version, pa.ListArray.from_arrays(offsets, tokens))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("item", [pa.int32(), pa.bool_(), pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_long_runs_of_null_and_empty_lists(tmp_path, version, item):
    one = {pa.int32(): 7, pa.bool_(): True}.get(item, "x")
    rows = [None] * 70_000 + [[one, one, one]] + [[]] * 40_000 + [[one]] * 3 + [None] * 20_000
    check(tmp_path, version, build(rows, pa.list_(item)))


@pytest.mark.parametrize("version", VERSIONS)
def test_one_row_with_a_long_run_of_empty_lists(tmp_path, version):
    rows = [[[1]] + [[]] * 100_000 + [[2, 3]] * 5, None, [None]]
    check(tmp_path, version, build(rows, pa.list_(pa.list_(pa.int16()))))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("words,page_bytes", [(128, 8 << 20), (60, 7000)])
def test_batches_bring_dictionaries_of_their_own(tmp_path, version, words, page_bytes):
    # Pylance cannot join pages whose dictionaries have more entries together than the index type counts, not even its own.
    rng = random.Random(1)
    schema = pa.schema([pa.field("role", pa.dictionary(pa.int8(), pa.string()), nullable=False)])
    batches = []
    for _ in range(4):
        roles = [f"role {i}" for i in range(words)]
        rng.shuffle(roles)
        indices = pa.array([rng.randrange(words) for _ in range(5000)], pa.int8())
        batches.append(pa.record_batch([pa.DictionaryArray.from_arrays(indices, roles)], schema=schema))
    target = write(tmp_path, batches, schema, version, page_bytes=page_bytes)
    assert_same(pa.Table.from_batches(batches), read(target))


def test_129_roles_are_refused_by_name(tmp_path):
    schema = pa.schema([pa.field("role", pa.dictionary(pa.int8(), pa.string()))])
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), [f"{k} {i}" for i in range(100)])], schema=schema)
        for k in range(2)
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="column 'role'.*128"):
        write(tmp_path, batches, schema, "2.1")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", [pa.string(), pa.large_string(), pa.binary(), pa.int64()])
def test_dictionaries_of_other_values_and_with_a_null_entry(tmp_path, version, value):
    words = [10, None, 30] if value == pa.int64() else ["a", None, "c" * 400]
    if value == pa.binary():
        words = [w and w.encode() for w in words]
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None] * 50, pa.int16()), pa.array(words, value))
    got = write(tmp_path, [pa.record_batch([array], ["c"])], pa.schema([("c", array.type)]), version)
    assert read(got)["c"].cast(value).to_pylist() == array.dictionary_decode().to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
def test_garbage_below_nulls_is_not_written(tmp_path, version):
    strings = pa.array(["secret", "shown", "hidden" * 100, ""])
    masked = pa.Array.from_buffers(pa.string(), 4, [pa.py_buffer(bytes([0b1010])), *strings.buffers()[1:]])
    check(tmp_path, version, masked)
    assert b"secret" not in (tmp_path / "out.lance").read_bytes()
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 5, 6], pa.int32()), pa.array(range(6), pa.int32()))
    masked = pa.Array.from_buffers(lists.type, 3, [pa.py_buffer(bytes([0b101])), lists.buffers()[1]], children=[lists.values])
    check(tmp_path, version, masked)


@pytest.mark.parametrize("version", VERSIONS)
def test_wide_vectors_and_maps(tmp_path, version):
    rng = random.Random(3)
    vectors = [[rng.random() for _ in range(1536)] if i % 7 else None for i in range(50)]
    check(tmp_path, version, pa.array(vectors, pa.list_(pa.float32(), 1536)))
    maps = [[(f"k{j}", j) for j in range(i % 4)] if i % 5 else None for i in range(500)]
    check(tmp_path, version, pa.array(maps, pa.map_(pa.string(), pa.int32())))


@pytest.mark.parametrize("version", VERSIONS)
def test_random_access_in_all_layouts(tmp_path, version):
    rng = random.Random(5)
    texts = [None if i % 9 == 0 else random_text(rng, 700) for i in range(3000)]
    lists = [None if i % 4 == 0 else [i] * (i % 50) for i in range(3000)]
    table = pa.table({"s": texts, "short": [t and t[:20] for t in texts], "l": lists, "n": pa.array(range(3000))})
    target = write(tmp_path, table.to_batches(), table.schema, version, page_bytes=20000)
    reader = lance.file.LanceFileReader(str(target))
    rows = sorted(rng.sample(range(3000), 100))
    assert_same(table.take(rows), reader.take_rows(rows).to_table())
    assert_same(table.slice(1234, 777), reader.read_range(1234, 777).to_table())


def test_null_in_a_not_null_column_is_refused_by_name(tmp_path):
    kind = pa.struct([pa.field("x", pa.list_(pa.int32()))])
    array = build([{"x": [1]}, {"x": None}], kind)
    strict = pa.struct([pa.field("x", pa.list_(pa.int32()), nullable=False)])
    batch = pa.record_batch([pa.Array.from_buffers(strict, 2, [None], children=[array.field(0)])], ["c"])
    with pytest.raises(AssertionError, match="column 'c.x' must not be null"):
        write(tmp_path, [batch], batch.schema, "2.1")


# The original's reader -------------------------------------------------------------------------------------------------------


def leaf_ids(fields):
    for field in fields:
        children = field.children()
        yield from leaf_ids(children) if children else [field.id()]


def rollouts(rng, count):
    def maybe(value):
        return None if rng.random() < 0.3 else value

    for i in range(count):
        record = {
            "id": f"i{i:05}",
            "rollout_id": f"r{i // 10}",
            "role": f"role {rng.randrange(20)}",
            "content": maybe("x" * rng.randint(0, 800)),
            "input_tokens": maybe([rng.randint(0, 9999) for _ in range(rng.choice([0, 5, 300]))]),
            "output_logprobs": maybe([rng.random() for _ in range(rng.choice([0, 3]))]),
            "loss_mask": maybe([1] * rng.randint(0, 4)),
            "reward": maybe(float(rng.randint(0, 9))),
            "include_in_training": maybe(True),
            "relationships": maybe([{"target_id": "t", "relation": "r", "weight": maybe(0.5)}] * rng.choice([0, 2])),
            "binary_payload": maybe(rng.randbytes(rng.choice([0, 10, 5000]))),
        }
        yield {key: value for key, value in record.items() if value is not None}


def test_the_original_reads_fragments_that_we_wrote(tmp_path):
    import lance_context

    rng = random.Random(4)
    records = list(rollouts(rng, 1000))
    records[77]["binary_payload"] = rng.randbytes(3 << 20)
    theirs = lance_context.RolloutStore.open(str(tmp_path / "theirs"))
    for first in range(0, 1000, 250):
        theirs.add(records[first : first + 250])
    theirs.flush()
    generations = sorted((tmp_path / "theirs" / "_mem_wal").glob("*/*_gen_*"))
    lance_context.RolloutStore.open(str(tmp_path / "ours"))
    base = lance.dataset(tmp_path / "ours")
    table = pa.concat_tables([lance.dataset(g).to_table() for g in generations])
    table = table.select(base.schema.names).cast(base.schema)
    ids = list(leaf_ids(base.lance_schema.fields()))
    fragments = []
    for number, flags in enumerate([{}, {"page_bytes": 20000, "batch_rows": 70}]):
        made = write(tmp_path, table.slice(number * 500, 500).to_batches(), base.schema, "2.1", **flags)
        data = tmp_path / "ours" / "data" / f"{number}.lance"
        data.parent.mkdir(exist_ok=True)
        made.rename(data)
        file = lance.fragment.DataFile(data.name, ids, list(range(len(ids))), 2, 1, data.stat().st_size)
        fragments.append(lance.fragment.FragmentMetadata(number, [file], 500))
    lance.LanceDataset.commit(base.uri, lance.LanceOperation.Append(fragments), read_version=base.version)
    assert lance.dataset(base.uri).to_table().to_pylist() == table.to_pylist()
    ours = lance_context.RolloutStore.open(base.uri)
    by_id = {record["id"]: record for record in ours.list()}
    assert by_id == {record["id"]: record for record in theirs.list()}
    assert ours.get_blob("i00077") == records[77]["binary_payload"]
