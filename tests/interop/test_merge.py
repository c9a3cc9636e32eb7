"""Generations merged by us into base tables of pylance 14 and lance-context 0.6.7, which both go on from there."""

import pathlib
import re
import struct
import subprocess
import uuid

import lance
import lance_context
import pyarrow as pa
import pytest
from lance.mem_wal import CompactedSsTable, LsmScanner, ShardSnapshot

from harness import lance_files

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("v", pa.int64()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.large_binary())])),
    ]
)


def rows(*pairs):
    return pa.table(
        {
            "id": [key for key, _ in pairs],
            "v": [value for _, value in pairs],
            "tags": [[f"t{value}"] * (value % 3) for _, value in pairs],
            "inner": [{"a": value, "b": b"x" * value} if value % 2 else None for _, value in pairs],
        },
        schema=SCHEMA,
    )


def plain(*pairs):
    return rows(*pairs).to_pylist()


class Base:
    """A table with a MemWAL whose generations pylance writes."""

    def __init__(self, path: pathlib.Path, tool: pathlib.Path, version: str = "2.1"):
        self.path, self.tool = path, tool
        self.shard = str(uuid.uuid4())
        lance.write_dataset(rows(("a", 1), ("b", 1), ("c", 1)), str(path), data_storage_version=version)
        self.open().initialize_mem_wal(unsharded=True)

    def open(self):
        return lance.dataset(str(self.path))

    def generation(self, *pairs, delete=()):
        """One generation: the rows, then tombstones of `delete`."""
        writer = self.open().mem_wal_writer(self.shard)
        if pairs:
            writer.put(rows(*pairs))
        if delete:
            writer.delete(pa.table({"id": pa.array(delete)}, schema=pa.schema([SCHEMA.field("id")])))
        writer.close()

    def merge(self, *limit):
        done = subprocess.run([self.tool, self.path.parent, self.path.name, self.shard, *map(str, limit)], capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stderr
        return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", done.stdout)}

    def sstables(self):
        return lance_files.latest_manifest(self.path / "_mem_wal" / self.shard).sstables

    def details(self):
        """Of the MemWAL entry in the newest manifest, by hand: {field number: [values]}."""
        newest = min((self.path / "_versions").glob("*.manifest"))
        data = newest.read_bytes()
        manifest_at = struct.unpack("<Q", data[-16:-8])[0]
        manifest = dict(lance_files._fields(section(data, manifest_at)))
        for number, index in lance_files._fields(section(data, manifest.get(6, 0))):
            entry = dict(lance_files._fields(index))
            if entry[3] == b"__lance_mem_wal":
                fields: dict[int, list] = {}
                for key, value in lance_files._fields(dict(lance_files._fields(entry[6]))[2]):
                    fields.setdefault(key, []).append(value)
                return fields
        raise AssertionError("no MemWAL entry")

    def watermarks(self):
        return dict(watermark(entry) for entry in self.details().get(9, []))

    def lsm_rows(self):
        """As a reader that follows the format sees it: base, and the generations that are named."""
        shard = ShardSnapshot(self.shard)
        for table in self.sstables():
            shard = shard.with_sstable(table.generation, table.directory)
        return LsmScanner.from_snapshots(self.open(), [shard]).to_table().select(SCHEMA.names).to_pylist()


def section(data: bytes, at: int) -> bytes:
    length = struct.unpack("<I", data[at : at + 4])[0]
    return data[at + 4 : at + 4 + length]


def watermark(entry: bytes) -> tuple[str, int]:
    fields = dict(lance_files._fields(entry))
    return str(uuid.UUID(bytes=dict(lance_files._fields(fields[1]))[1])), fields[2]


def ordered(table):
    return sorted(table, key=lambda row: row["id"])


@pytest.fixture(params=["2.1", "2.2"])
def base(request, tmp_path, find_tool):
    return Base(tmp_path / "t", find_tool("merge_tool"), request.param)


def test_pylance_reads_what_we_merged_and_merges_on_top(base):
    base.generation(("b", 2), ("d", 2))
    base.generation(("e", 3), ("b", 3), delete=["a", "nowhere"])
    before = base.lsm_rows()
    report = base.merge()
    assert (report["watermark"], report["merged"], report["deleted"], report["appended"]) == (2, 2, 2, 3)
    expected = plain(("c", 1), ("d", 2), ("e", 3), ("b", 3))
    assert base.open().to_table().to_pylist() == expected, "arrival order, and no _tombstone"
    assert ordered(before) == ordered(expected)
    assert base.sstables() == []
    assert base.watermarks() == {base.shard: 2}
    assert base.open().mem_wal_index_details()["num_shards"] == 1
    base.open().validate()
    operation = base.open().read_transaction(base.open().version).operation
    assert isinstance(operation, lance.LanceOperation.Update)
    assert operation.update_mode in (None, "rewrite_rows")
    assert operation.fields_for_preserving_frag_bitmap == list(range(len(operation.fields_for_preserving_frag_bitmap)))

    # Its writer goes on: generation 3, which pylance merges by its own means.
    base.generation(("f", 4), ("c", 4))
    assert [table.generation for table in base.sstables()] == [3]
    assert ordered(base.lsm_rows()) == ordered(plain(("d", 2), ("e", 3), ("b", 3), ("f", 4), ("c", 4)))
    upsert = lambda generation, *pairs: (
        base.open().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        .mark_sstables_as_compacted([CompactedSsTable(base.shard, generation)]).execute(rows(*pairs)))
    with pytest.raises(Exception, match="[Ss]tale"):
        upsert(2, ("z", 9))
    upsert(3, ("f", 4), ("c", 4))
    assert base.watermarks() == {base.shard: 3}
    assert ordered(base.open().to_table().to_pylist()) == ordered(plain(("d", 2), ("e", 3), ("b", 3), ("f", 4), ("c", 4)))
    # It does not drain; we do, and merge nothing twice.
    report = base.merge()
    assert (report["drained"], report["merged"]) == (1, 0)
    assert base.sstables() == []


def test_the_commit_says_what_pylance_would_have_said(base):
    """The same upsert by both: equal transactions but for names, and pylance's optional filter over inserted keys."""
    base.generation(("b", 2), ("d", 2))
    twin = base.path.parent / "twin"
    lance.write_dataset(rows(("a", 1), ("b", 1), ("c", 1)), str(twin), data_storage_version=base.open().data_storage_version)
    lance.dataset(str(twin)).initialize_mem_wal(unsharded=True)
    (lance.dataset(str(twin)).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
     .mark_sstables_as_compacted([CompactedSsTable(base.shard, 1)]).execute(rows(("b", 2), ("d", 2))))
    base.merge()

    def said(path):
        dataset = lance.dataset(str(path))
        operation = dataset.read_transaction(dataset.version).operation
        shape = lambda fragment: (fragment.id, fragment.physical_rows, fragment.deletion_file and
                                  (fragment.deletion_file.file_type, fragment.deletion_file.num_deleted_rows),
                                  [(file.fields, file.column_indices, file.file_major_version, file.file_minor_version)
                                   for file in fragment.files])
        return (operation.removed_fragment_ids, [shape(fragment) for fragment in operation.updated_fragments],
                [shape(fragment) for fragment in operation.new_fragments], operation.fields_modified,
                operation.fields_for_preserving_frag_bitmap, operation.update_mode)

    assert said(base.path) == said(twin)
    theirs = Base.__new__(Base)
    theirs.path = twin
    assert base.details() == theirs.details()


def test_indices_of_pylance_stay_right_and_only_pylance_says_they_have_caught_up(base):
    base.open().create_scalar_index("id", "BTREE")
    base.generation(("b", 2), ("d", 2), delete=["a"])
    base.merge()
    assert 10 not in base.details(), "an index that does not cover the new fragment has not caught up"
    dataset = base.open()
    for key, found in (("a", 0), ("b", 1), ("c", 1), ("d", 1)):
        assert dataset.count_rows(filter=f"id = '{key}'") == found
    assert dataset.to_table(filter="id = 'b'").to_pylist() == plain(("b", 2))
    dataset.optimize.optimize_indices()
    assert 10 in base.details()
    base.generation(("e", 3))
    kept = base.details()[10]
    base.merge()
    assert base.details()[10] == kept, "a merge leaves it as it is"
    dataset = base.open()
    dataset.optimize.compact_files()
    assert ordered(base.open().to_table().to_pylist()) == ordered(plain(("c", 1), ("b", 2), ("d", 2), ("e", 3)))
    base.generation(("c", 5))
    base.merge()
    assert ordered(base.open().to_table().to_pylist()) == ordered(plain(("b", 2), ("d", 2), ("e", 3), ("c", 5)))


def test_a_pylance_upsert_that_began_before_our_merge_makes_no_key_twice(base):
    base.generation(("b", 2), ("new", 2))
    stale = base.open()
    base.merge()
    stale.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(("new", 7), ("b", 7)))
    found = base.open().to_table().to_pylist()
    assert len(found) == len({row["id"] for row in found}), found
    assert ordered(found) == ordered(plain(("a", 1), ("c", 1), ("new", 7), ("b", 7)))
    assert base.watermarks() == {base.shard: 1}, "kept by an update that says nothing of it"


def test_a_fragment_whose_last_row_goes_is_removed(base):
    base.generation(("a", 2), ("b", 2), delete=["c"])
    base.merge()
    assert [fragment.fragment_id for fragment in base.open().get_fragments()] == [1]
    base.open().validate()
    assert base.open().to_table().to_pylist() == plain(("a", 2), ("b", 2))


def test_a_store_of_the_original_is_merged_and_goes_on(tmp_path, find_tool):
    path = tmp_path / "s.rollout.lance"
    store = lance_context.RolloutStore.open(str(path))
    ids = lambda: [row["id"] for row in lance_context.RolloutStore.open(str(path)).list()]
    for turn in range(3):
        store.add([{"id": f"r{turn}-{n}", "rollout_id": "r", "role": "assistant", "content": f"c{turn}"} for n in range(4)])
        store.flush()
    before = lance_context.RolloutStore.open(str(path)).list()
    assert len(before) == 12

    def merge(*limit):
        done = subprocess.run([find_tool("merge_tool"), tmp_path, path.name, lance_files.DEFAULT_SHARD, *map(str, limit)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "merged 2" in merge(2)
    assert sorted(ids()) == sorted(row["id"] for row in before)
    # The store that was open all the time is not fenced.
    store.add([{"id": "late", "rollout_id": "r"}])
    store.flush()
    merge()
    after = lance_context.RolloutStore.open(str(path)).list()
    assert [row["id"] for row in after] == [row["id"] for row in before] + ["late"]
    assert after[: len(before)] == before
    # Of 0.6.7, a handle that was open before the merge lists from the newest base version and gets from the one it opened.
    assert [row["id"] for row in store.list()] == [row["id"] for row in after]
    assert lance.dataset(str(path)).count_rows() == 13
    reopened = lance_context.RolloutStore.open(str(path))
    assert reopened.get("r0-0")["id"] == "r0-0"
    reopened.add([{"id": "after", "rollout_id": "r"}])
    reopened.flush()
    assert sorted(ids()) == sorted([row["id"] for row in after] + ["after"])
