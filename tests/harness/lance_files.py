"""Reads a store's directory with pylance, as any tool of the Lance world would: base table, generations, shard manifest.

The shard manifest is decoded here by hand, so that what is checked does not depend on the server's own code.
"""

import pathlib
import uuid
from typing import Any, Iterator, NamedTuple

import lance
import pyarrow
from lance.mem_wal import LsmScanner, ShardSnapshot

# The shard that an instance writes is named after the instance's id; "default" is the embedded store's.
DEFAULT_SHARD = str(uuid.uuid5(uuid.NAMESPACE_OID, "default"))


class SsTable(NamedTuple):
    generation: int
    directory: str


class ShardManifest(NamedTuple):
    version: int
    writer_epoch: int
    replay_after: int
    current_generation: int
    spec_id: int
    shard_id: str
    sstables: list[SsTable]


class LogEntry(NamedTuple):
    position: int
    epoch: int
    is_sentinel: bool
    rows: int


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: (number, integer or bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        else:
            if kind == 2:
                length, at = _varint(data, at)
            else:
                length = {1: 8, 5: 4}[kind]
            value = data[at:at + length]
            assert len(value) == length, "message is cut off"
            at += length
        yield number, value


def decode_shard_manifest(data: bytes) -> ShardManifest:
    numbers = {1: 0, 2: 0, 3: 0, 6: 0, 10: 0}
    shard_id, sstables = "", []
    for number, value in _fields(data):
        if number in numbers:
            numbers[number] = value
        elif number == 8:
            table = dict(_fields(value))
            sstables.append(SsTable(table[1], table[2].decode()))
        elif number == 11:
            shard_id = str(uuid.UUID(bytes=dict(_fields(value))[1]))
    return ShardManifest(numbers[1], numbers[2], numbers[3], numbers[6], numbers[10], shard_id, sstables)


def number_of(path: pathlib.Path) -> int:
    """Log objects and shard manifests are named by their number in binary, lowest bit first."""
    return int(path.name.split(".")[0][::-1], 2)


def _numbered(directory: pathlib.Path, suffix: str) -> list[pathlib.Path]:
    found = [path for path in directory.glob(f"*{suffix}") if len(path.name) == 64 + len(suffix)]
    return sorted(found, key=number_of)


def shard_dirs(store: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in (store / "_mem_wal").glob("*") if path.is_dir() and len(path.name) == 36)


def latest_manifest(shard: pathlib.Path) -> ShardManifest:
    files = _numbered(shard / "manifest", ".binpb")
    assert files, f"no manifest in {shard}"
    manifest = decode_shard_manifest(files[-1].read_bytes())
    assert manifest.version == number_of(files[-1])
    return manifest


def log_entries(shard: pathlib.Path) -> list[LogEntry]:
    entries = []
    for path in _numbered(shard / "wal", ".arrow"):
        with pyarrow.ipc.open_stream(path.read_bytes()) as reader:
            metadata = {key.decode(): value.decode() for key, value in (reader.schema.metadata or {}).items()}
            rows = sum(batch.num_rows for batch in reader)
        entries.append(LogEntry(number_of(path), int(metadata["writer_epoch"]), metadata.get("fence_sentinel") == "true", rows))
    return entries


def rows_only_in_log(store: pathlib.Path) -> int:
    """Rows in log objects that no generation covers yet."""
    return sum(entry.rows for shard in shard_dirs(store) for entry in log_entries(shard)
               if entry.position > latest_manifest(shard).replay_after)


def generation_paths(store: pathlib.Path) -> list[pathlib.Path]:
    return [shard / table.directory for shard in shard_dirs(store) for table in latest_manifest(shard).sstables]


def snapshots(store: pathlib.Path) -> list[ShardSnapshot]:
    made = []
    for shard in shard_dirs(store):
        manifest = latest_manifest(shard)
        snapshot = ShardSnapshot(manifest.shard_id).with_spec_id(manifest.spec_id)
        snapshot = snapshot.with_current_generation(manifest.current_generation)
        for table in manifest.sstables:
            snapshot = snapshot.with_sstable(table.generation, table.directory)
        made.append(snapshot)
    return made


def rows_of_table(table: pyarrow.Table) -> list[dict]:
    return table.to_pylist()


def read_base(store: pathlib.Path) -> list[dict]:
    return rows_of_table(lance.dataset(str(store)).to_table())


def read_generation(path: pathlib.Path) -> list[dict]:
    return rows_of_table(lance.dataset(str(path)).to_table())


def read_merged(store: pathlib.Path) -> list[dict]:
    """Base and generations through pylance's own newest-wins scan."""
    return rows_of_table(LsmScanner.from_snapshots(lance.dataset(str(store)), snapshots(store)).to_table())
