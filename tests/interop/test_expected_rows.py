"""The expectations that all end-to-end tests compare with, checked against the original implementation itself."""

from harness import lance_files
from harness.expected_rows import assert_arrow_rows, assert_rows, newest_wins
from harness.original import FLUSH, LIST, VANISH, add, get_blob, run_original
from harness.records import EMPTY, FULL, MINIMAL, plain, real_experiments, with_payload

RECORDS = [FULL, MINIMAL, EMPTY, with_payload("blob", b"\x00\x01\xff" * 1000), with_payload("zero", b""), plain("again"), plain("again", reward=2.0)]


def test_the_original_reads_back_what_we_expect(tmp_path):
    store = tmp_path / "s.rollout.lance"
    seen = run_original(store, add(RECORDS), FLUSH, LIST, get_blob("blob"), get_blob("zero"), get_blob("minimal"))
    assert_rows(RECORDS, seen.lists[0], ordered=False)
    assert seen.blobs == [b"\x00\x01\xff" * 1000, b"", None]
    assert_arrow_rows(newest_wins(RECORDS), lance_files.read_merged(store))
    assert lance_files.rows_only_in_log(store) == 0


def test_the_original_reads_back_a_real_experiment(tmp_path):
    records = real_experiments()["structured_outputs"]
    seen = run_original(tmp_path / "s.rollout.lance", add(records), FLUSH, LIST)
    assert_rows(records, seen.lists[0], ordered=False)


def test_rows_that_only_the_log_has_are_counted(tmp_path):
    store = tmp_path / "s.rollout.lance"
    run_original(store, add([plain("a")]), FLUSH, VANISH)
    run_original(store, add([plain("b"), plain("c")]), VANISH)
    assert lance_files.rows_only_in_log(store) == 2
    assert [row["id"] for row in lance_files.read_merged(store)] == ["a"]
    [shard] = lance_files.shard_dirs(store)
    assert shard.name == lance_files.DEFAULT_SHARD
