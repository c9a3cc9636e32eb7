"""Tables written by lance/table against pylance, in both directions: commits, deletions, projections, indices, generations.

The tool under test is lance_table_tool; SARISSA_BUILD names its build directory.
"""

import glob
import os
import subprocess
import uuid

import lance
import lance_context
import pyarrow as pa
import pytest

VERSIONS = ["2.1", "2.2"]
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.utf8()),
        pa.field("tags", pa.list_(pa.utf8())),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.large_binary())])),
        pa.field("kind", pa.dictionary(pa.int8(), pa.utf8())),
    ],
    metadata={"made by": "a test"},
)


def rows(first, count):
    ids = range(first, first + count)
    return pa.table(
        [
            pa.array(ids, pa.int64()),
            pa.array([None if i % 7 == 0 else f"n{i}" for i in ids]),
            pa.array([None if i % 5 == 0 else [f"t{k}" for k in range(i % 4)] for i in ids], pa.list_(pa.utf8())),
            pa.array([None if i % 11 == 0 else {"a": i, "b": b"x" * (i % 300)} for i in ids], SCHEMA.field("inner").type),
            pa.array([None if i % 13 == 0 else f"k{i % 3}" for i in ids]).dictionary_encode().cast(SCHEMA.field("kind").type),
        ],
        schema=SCHEMA,
    )


def plain(table):
    return table.to_pylist()


class Tool:
    def __init__(self, path, root):
        self.path, self.root = path, root

    def fails(self, *arguments):
        return subprocess.run([self.path, arguments[0], self.root, *map(str, arguments[1:])], capture_output=True, text=True)

    def __call__(self, *arguments):
        done = self.fails(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def stream(self, name, table):
        path = f"{self.root}/{name}.arrows"
        with pa.ipc.new_stream(path, table.schema) as out:
            for batch in table.to_batches(max_chunksize=50):
                out.write_batch(batch)
        return path

    def create(self, table, version, schema=SCHEMA, *config):
        return self("create", table, version, self.stream("schema", schema.empty_table()), *config)

    def append(self, table, data):
        return self("append", table, self.stream("rows", data))

    def scan(self, table, *columns, version=0, batch_rows=64):
        self("scan", table, f"{self.root}/out.arrows", version, batch_rows, *columns)
        return pa.ipc.open_stream(f"{self.root}/out.arrows").read_all()

    def take(self, table, *addresses):
        self("take", table, f"{self.root}/out.arrows", *addresses)
        return pa.ipc.open_stream(f"{self.root}/out.arrows").read_all()


@pytest.fixture
def tool(find_tool, tmp_path):
    return Tool(find_tool("lance_table_tool"), str(tmp_path))


def same_rows(tool, uri, table):
    """Our scan and pylance's agree, addresses too; gives pylance's rows."""
    theirs = lance.dataset(uri).scanner(with_row_address=True).to_table()
    ours = tool.scan(table)
    assert ours.column_names == theirs.column_names
    assert plain(ours) == plain(theirs)
    return plain(theirs.drop_columns(["_rowaddr"]))


@pytest.mark.parametrize("version", VERSIONS)
def test_pylance_reads_and_continues_our_table(tool, version):
    uri = f"{tool.root}/t"
    tool.create("t", version, SCHEMA, "sarissa.k=v")
    assert lance.dataset(uri).schema == SCHEMA
    assert lance.dataset(uri).schema.metadata == SCHEMA.metadata
    assert lance.dataset(uri).config() == {"sarissa.k": "v"}
    assert lance.dataset(uri).count_rows() == 0
    tool.append("t", rows(0, 300))
    assert same_rows(tool, uri, "t") == plain(rows(0, 300))
    tool("delete", "t", 0, 5, 299)
    expected = [row for row in plain(rows(0, 300)) if row["id"] not in (0, 5, 299)]
    assert same_rows(tool, uri, "t") == expected
    assert lance.dataset(uri).count_rows() == 297

    lance.write_dataset(rows(300, 100), uri, mode="append")
    assert same_rows(tool, uri, "t") == expected + plain(rows(300, 100))
    tool.append("t", rows(400, 10))
    lance.dataset(uri).delete("id >= 390 and id < 395 or id = 7")
    tool("delete", "t", 8)
    expected = [r for r in expected if r["id"] not in (7, 8)] + [r for r in plain(rows(300, 110)) if not 390 <= r["id"] < 395]
    assert same_rows(tool, uri, "t") == expected
    assert lance.dataset(uri).config() == {"sarissa.k": "v"}
    assert lance.dataset(uri).data_storage_version == version
    assert [v["version"] for v in lance.dataset(uri).versions()] == list(range(1, lance.dataset(uri).version + 1))
    lance.dataset(uri).validate()


@pytest.mark.parametrize("version", VERSIONS)
def test_both_kinds_of_deletion_files_and_removed_fragments(tool, version):
    uri = f"{tool.root}/t"
    lance.write_dataset(rows(0, 12000), uri, data_storage_version=version)
    lance.write_dataset(rows(12000, 20), uri, mode="append")
    lance.dataset(uri).delete("id % 100 = 3")
    assert glob.glob(uri + "/_deletions/*.arrow")
    same_rows(tool, uri, "t")
    lance.dataset(uri).delete("id % 2 = 0")
    assert glob.glob(uri + "/_deletions/*.bin")
    same_rows(tool, uri, "t")
    tool("delete", "t", *range(1, 2000, 2))
    assert same_rows(tool, uri, "t") == [r for r in plain(rows(0, 12020)) if r["id"] % 2 and r["id"] % 100 != 3 and r["id"] > 2000]
    tool("delete", "t", *[(1 << 32) + i for i in range(20)])
    assert [f.fragment_id for f in lance.dataset(uri).get_fragments()] == [0]
    same_rows(tool, uri, "t")
    tool.append("t", rows(0, 5))
    assert [f.fragment_id for f in lance.dataset(uri).get_fragments()] == [0, 2]
    same_rows(tool, uri, "t")


@pytest.mark.parametrize("version", VERSIONS)
def test_added_and_dropped_columns_compaction_and_old_versions(tool, version):
    uri = f"{tool.root}/t"
    tool.create("t", version)
    tool.append("t", rows(0, 120))
    tool.append("t", rows(120, 30))
    first = lance.dataset(uri).version
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    assert len(lance.dataset(uri).get_fragments()[0].data_files()) == 2
    same_rows(tool, uri, "t")
    assert tool.scan("t", "twice", "id").column_names == ["twice", "id", "_rowaddr"]
    assert tool.scan("t", "twice")["twice"].to_pylist() == [2 * i for i in range(150)]
    lance.dataset(uri).drop_columns(["name"])
    same_rows(tool, uri, "t")
    lance.dataset(uri).add_columns(pa.field("late", pa.utf8()))
    same_rows(tool, uri, "t")
    lance.dataset(uri).delete("id < 10")
    lance.dataset(uri).optimize.compact_files()
    assert len(lance.dataset(uri).get_fragments()) == 1
    assert [r["id"] for r in same_rows(tool, uri, "t")] == list(range(10, 150))
    old = tool.scan("t", version=first)
    assert plain(old.drop_columns(["_rowaddr"])) == plain(rows(0, 150))


@pytest.mark.parametrize("version", VERSIONS)
def test_take_by_address(tool, version):
    uri = f"{tool.root}/t"
    lance.write_dataset(rows(0, 3000), uri, data_storage_version=version, max_rows_per_file=1000)
    addresses = [(2 << 32) + 5, 17, (1 << 32) + 999, 17, 0]
    assert plain(tool.take("t", *addresses)) == [plain(rows(i, 1))[0] for i in (2005, 17, 1999, 17, 0)]
    refused = tool.fails("take", "t", f"{tool.root}/out.arrows", 1000)
    assert refused.returncode == 1 and refused.stderr.startswith("not_found"), refused.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_pylance_uses_our_column_index(tool, version):
    uri = f"{tool.root}/t"
    schema = pa.schema([pa.field("id", pa.utf8()), pa.field("n", pa.int64())])
    data = pa.table([[f"id-{i * 7919 % 10007}" if i % 50 else None for i in range(10000)], range(10000)], schema=schema)
    tool.create("t", version, schema)
    tool.append("t", data)
    tool("index", "t", "id")
    ds = lance.dataset(uri)
    assert [(i.name, i.index_type) for i in ds.describe_indices()] == [("id_idx", "BTree")]
    assert "ScalarIndexQuery" in ds.scanner(filter="id = 'id-7'").explain_plan()
    for wanted in ("id-0", "id-7", "id-10006", "nope"):
        expected = [r for r in plain(data) if r["id"] == wanted]
        assert plain(ds.to_table(filter=f"id = '{wanted}'")) == expected
    assert len(plain(ds.to_table(filter="id is null"))) == 200
    expected = sorted(r["n"] for r in plain(data) if r["id"] and "id-2" <= r["id"] < "id-3")
    assert sorted(ds.to_table(filter="id >= 'id-2' and id < 'id-3'")["n"].to_pylist()) == expected
    # Rows that came later are found beside the index, then with it.
    tool.append("t", pa.table([["id-7", "new"], [-1, -2]], schema=schema))
    assert len(lance.dataset(uri).to_table(filter="id = 'id-7'")) == 2
    lance.dataset(uri).optimize.optimize_indices()
    assert lance.dataset(uri).to_table(filter="id = 'new'")["n"].to_pylist() == [-2]


def test_we_read_an_index_that_pylance_made(tool):
    uri = f"{tool.root}/t"
    data = pa.table({"id": [f"id-{i * 7919 % 10007}" for i in range(10000)], "n": range(10000)})
    lance.write_dataset(data, uri, data_storage_version="2.1").create_scalar_index("id", "BTREE")
    (index,) = glob.glob(uri + "/_indices/*")
    for row in (0, 1, 4095, 4096, 9999):
        assert tool("find", os.path.relpath(index, tool.root), data["id"][row].as_py()).split() == [str(row)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("key_type", [pa.utf8(), pa.int64()])
def test_pylance_merges_our_generations(tool, version, key_type):
    from lance.mem_wal import LsmPointLookupPlanner, LsmScanner, ShardSnapshot

    uri, shard = f"{tool.root}/t", str(uuid.uuid4())
    schema = pa.schema([pa.field("id", key_type, nullable=False, metadata=KEY), pa.field("s", pa.utf8(), nullable=False)])
    stored = pa.schema([schema.field(0), pa.field("s", pa.utf8()), pa.field("_tombstone", pa.bool_(), nullable=False)])

    def key(number):
        return f"k{number}" if key_type == pa.utf8() else number

    tool.create("t", version, schema)
    tool.append("t", pa.table([[key(i) for i in range(20)], [f"base{i}" for i in range(20)]], schema=schema))
    lance.dataset(uri).initialize_mem_wal(unsharded=True)
    # Key 3 twice, the older copy masked; key 4 deleted; key 100 new.
    generation = f"t/_mem_wal/{shard}/00000001_gen_1"
    data = pa.table(
        [[key(3), key(100), key(3), key(4)], ["old", "new", "newer", None], [False, False, False, True]], schema=stored
    )
    tool("generation", "t", generation, tool.stream("generation", data), 0)
    opened = lance.dataset(f"{tool.root}/{generation}")
    assert plain(opened.to_table()) == plain(data)[1:]
    assert [f.id() for f in opened.lance_schema.fields()] == [0, 1, 2]
    snapshot = ShardSnapshot(shard).with_current_generation(2).with_sstable(1, "00000001_gen_1")
    base = lance.dataset(uri)
    expected = {key(i): f"base{i}" for i in range(20)}
    expected.update({key(3): "newer", key(100): "new"})
    del expected[key(4)]
    scanned = LsmScanner.from_snapshots(base, [snapshot]).to_table()
    assert {r["id"]: r["s"] for r in plain(scanned)} == expected and len(scanned) == len(expected)
    planner = LsmPointLookupPlanner(base, [snapshot])
    for number in (3, 4, 5, 100, 101):
        found = [r["s"] for r in plain(planner.plan_lookup(pa.array([key(number)], key_type)).to_table())]
        assert found == ([expected[key(number)]] if key(number) in expected else [])
    assert tool("find", generation + "/_pk_index", key(3)).split() == ["0", "2"]
    # The entry of the MemWAL index outlives our commits.
    tool.append("t", pa.table([[key(50)], ["late"]], schema=schema))
    assert lance.dataset(uri).mem_wal_index_details() is not None


def test_we_read_a_generation_that_pylance_made(tool):
    uri, shard = f"{tool.root}/t", str(uuid.uuid4())
    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False, metadata=KEY), pa.field("s", pa.utf8())])
    lance.write_dataset(schema.empty_table(), uri).initialize_mem_wal(unsharded=True)
    writer = lance.dataset(uri).mem_wal_writer(shard)
    writer.put(pa.table([["a", "b", "a"], ["1", "2", "3"]], schema=schema))
    writer.close()
    (generation,) = glob.glob(f"{uri}/_mem_wal/{shard}/*_gen_1")
    read = tool.scan(os.path.relpath(generation, tool.root))
    assert [(r["id"], r["s"], r["_rowaddr"]) for r in plain(read)] == [("b", "2", 1), ("a", "3", 2)]


def test_old_manifest_names_and_stable_row_ids(tool):
    uri = f"{tool.root}/t"
    lance.write_dataset(rows(0, 10), uri, enable_v2_manifest_paths=False)
    assert os.path.exists(uri + "/_versions/1.manifest")
    tool.append("t", rows(10, 10))
    assert os.path.exists(uri + "/_versions/2.manifest")
    assert same_rows(tool, uri, "t") == plain(rows(0, 20))

    stable = f"{tool.root}/stable"
    lance.write_dataset(rows(0, 10), stable, enable_stable_row_ids=True)
    lance.dataset(stable).delete("id = 3")
    assert [r["id"] for r in plain(tool.scan("stable"))] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    refused = tool.fails("append", "stable", tool.stream("rows", rows(10, 1)))
    assert refused.returncode == 1 and "stable row ids" in refused.stderr, refused.stderr


def test_lagging_pylance_writers_rebase_over_our_commits(tool):
    uri = f"{tool.root}/t"
    tool.create("t", "2.1")
    tool.append("t", rows(0, 50))
    lagging = lance.dataset(uri)
    tool.append("t", rows(50, 10))
    tool("delete", "t", 1, 2)
    lagging.delete("id = 3")
    lagging = lance.dataset(uri, version=2)
    lagging.create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(60, 5), lance.dataset(uri, version=2), mode="append")
    assert [r["id"] for r in same_rows(tool, uri, "t")] == [i for i in range(65) if i not in (1, 2, 3)]


def test_the_original_opens_a_base_table_of_ours(tool):
    # Rows as the original stores them: from a generation that it flushed.
    theirs = f"{tool.root}/theirs"
    store = lance_context.RolloutStore.open(theirs)
    store.add([{"rollout_id": f"r{i}", "problem_id": "p", "role": "user", "content": f"text {i}"} for i in range(3)])
    store.flush()
    (generation,) = glob.glob(theirs + "/_mem_wal/*/*_gen_1")
    stored = lance.dataset(generation).to_table().drop_columns(["_tombstone"])
    schema = lance.dataset(theirs).schema
    data = pa.table(stored.columns, schema=schema)
    listed = store.list()
    del store

    tool.create("ours", "2.1", schema)
    tool.append("ours", data)
    tool("delete", "ours", 1)
    opened = lance_context.RolloutStore.open(f"{tool.root}/ours")
    assert [r["rollout_id"] for r in opened.list()] == ["r0", "r2"]
    assert opened.list()[1] == listed[2]
    opened.add([{"rollout_id": "r9", "problem_id": "p", "role": "user", "content": "more"}])
    opened.flush()
    assert sorted(r["rollout_id"] for r in lance_context.RolloutStore.open(f"{tool.root}/ours").list()) == ["r0", "r2", "r9"]
    # The original committed its MemWAL index on top of us; we go on on top of it.
    tool.append("ours", data.slice(1, 1))
    assert sorted(r["rollout_id"] for r in lance_context.RolloutStore.open(f"{tool.root}/ours").list()) == ["r0", "r1", "r2", "r9"]
