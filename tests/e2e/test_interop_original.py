"""One directory, three readers: this server, pylance, and the original embedded store. Every row equal, in both directions."""

import itertools

import pytest

from harness import lance_files
from harness.expected_rows import assert_arrow_rows, assert_rows, newest_wins
from harness.original import FLUSH, LIST, VANISH, add, get, get_blob, run_original
from harness.records import EMPTY, FULL, MINIMAL, payload_parts, plain, with_payload, without_payload

STORE = "exchange"
LARGE = bytes(range(253)) * 9000

FIRST = [FULL, MINIMAL, EMPTY, with_payload("blob-small", b"\x00\x01\xff" * 10), with_payload("blob-empty", b""), plain("again")]
SECOND = [with_payload("blob-large", LARGE), plain("again", reward=7.5), plain("u-\U0001F680"), plain("nul-\u0000-inside")]
THIRD = [plain(f"third-{i}", output_tokens=list(range(i))) for i in range(50)]


def directory(server):
    return server.data_dir / f"{STORE}.rollout.lance"


def append(api, records: list[dict]) -> None:
    """Through HTTP, payloads as parts. In a multipart body a declared size needs bytes, so rows without go as JSON."""
    for has_payload, group in itertools.groupby(records, lambda record: record.get("binary_payload") is not None):
        rows = list(group)
        bare = [without_payload(record) for record in rows]
        answer = api.append_multipart(STORE, bare, payload_parts(rows)) if has_payload else api.append(STORE, bare)
        answer.expect(201)


def assert_served(server, records: list[dict]) -> None:
    api = server.api()
    assert_rows(records, api.list(STORE), ordered=False)
    for record in newest_wins(records):
        assert api.blob(STORE, record["id"]) == record.get("binary_payload"), record["id"]
        assert_rows([record], [api.record(STORE, record["id"])])


def assert_original_reads(server, records: list[dict], *before) -> None:
    expected = newest_wins(records)
    seen = run_original(directory(server), *before, LIST, *(get_blob(record["id"]) for record in expected),
                        *(get(record["id"]) for record in expected))
    assert_rows(records, seen.lists[-1], ordered=False)
    for record, blob, row in zip(expected, seen.blobs, seen.gets):
        assert blob == record.get("binary_payload"), record["id"]
        assert row is not None and row["id"] == record["id"]


@pytest.fixture
def written_by_us(make_server):
    """A stopped server's directory with two generations and a key written twice."""
    server = make_server().start()
    api = server.api()
    api.create(STORE).expect(201)
    append(api, FIRST)
    assert 200 <= api.flush(STORE).status < 300
    append(api, SECOND)
    append(api, THIRD)
    assert_served(server, FIRST + SECOND + THIRD)
    server.stop()
    return server


def test_pylance_opens_base_and_generations(written_by_us):
    store = directory(written_by_us)
    base = lance_files.read_base(store)
    generations = [lance_files.read_generation(path) for path in lance_files.generation_paths(store)]
    assert len(generations) >= 1
    newest = newest_wins(base + [row for generation in generations for row in generation])
    assert_arrow_rows(newest_wins(FIRST + SECOND + THIRD), newest)


def test_pylance_merges_base_and_generations(written_by_us):
    store = directory(written_by_us)
    assert lance_files.rows_only_in_log(store) == 0, "a clean stop leaves no row only in the log"
    assert_arrow_rows(newest_wins(FIRST + SECOND + THIRD), lance_files.read_merged(store))


def test_pylance_sees_the_mem_wal_index_and_the_schema(written_by_us):
    import lance

    dataset = lance.dataset(str(directory(written_by_us)))
    assert dataset.mem_wal_index_details() is not None
    from harness.expected_rows import COLUMNS
    assert dataset.schema.names == COLUMNS


def test_the_original_opens_a_stopped_directory(written_by_us):
    assert_original_reads(written_by_us, FIRST + SECOND + THIRD)


def test_a_pylance_writer_claims_and_appends(written_by_us):
    import lance

    store = directory(written_by_us)
    dataset = lance.dataset(str(store))
    writer = dataset.mem_wal_writer(lance_files.DEFAULT_SHARD)
    assert_arrow_rows(newest_wins(FIRST + SECOND + THIRD), lance_files.rows_of_table(writer.lsm_scanner().to_table()))
    writer.close()
    written_by_us.start()
    assert_served(written_by_us, FIRST + SECOND + THIRD)
    written_by_us.stop()


def test_a_directory_of_the_original_is_served_with_rows_only_in_its_log(make_server):
    server = make_server()
    server.data_dir.mkdir()
    run_original(directory(server), add(FIRST), FLUSH, VANISH)
    run_original(directory(server), add(SECOND), add(THIRD), VANISH)
    assert lance_files.rows_only_in_log(directory(server)) > 0, "the original left no row in its log; the test is void"
    server.start()
    server.api().create(STORE).expect(201)
    assert_served(server, FIRST + SECOND + THIRD)
    server.restart()
    assert_served(server, FIRST + SECOND + THIRD)
    server.stop()


@pytest.mark.parametrize("first", ["ours", "original"])
def test_each_side_appends_again_and_the_other_reads_again(make_server, first):
    server = make_server()
    server.data_dir.mkdir()
    everything = list(FIRST)
    if first == "ours":
        server.start()
        server.api().create(STORE).expect(201)
        append(server.api(), FIRST)
        server.stop()
    else:
        run_original(directory(server), add(FIRST), VANISH)
        server.start()
        server.api().create(STORE).expect(201)
        assert_served(server, everything)
        server.stop()
    for turn in range(2):
        theirs = [plain(f"theirs-{turn}"), with_payload(f"theirs-blob-{turn}", b"t" * (turn + 1)), plain("again", reward=10.0 + turn)]
        everything += theirs
        assert_original_reads(server, everything, add(theirs), FLUSH)

        tail = [plain(f"tail-{turn}", role=f"role-{turn}"), plain("again", reward=20.0 + turn)]
        everything += tail
        run_original(directory(server), add(tail), VANISH)
        server.start()
        assert_served(server, everything)

        ours = [plain(f"ours-{turn}"), with_payload(f"ours-blob-{turn}", b"o" * (2_000_000 * turn + 3)), plain("again", reward=30.0 + turn)]
        everything += ours
        append(server.api(), ours)
        assert_served(server, everything)
        server.stop()
        assert_arrow_rows(newest_wins(everything), lance_files.read_merged(directory(server)))
        assert_original_reads(server, everything)


def test_after_kill9_with_rows_only_in_our_log_the_original_goes_on(make_server):
    server = make_server().start()
    api = server.api()
    api.create(STORE).expect(201)
    append(api, FIRST)
    assert 200 <= api.flush(STORE).status < 300
    append(api, SECOND)
    for record in THIRD:
        append(api, [record])
    server.kill9()
    assert lance_files.rows_only_in_log(directory(server)) > 0

    theirs = [plain("theirs"), plain("again", reward=99.0)]
    everything = FIRST + SECOND + THIRD + theirs
    assert_original_reads(server, everything, add(theirs), FLUSH)
    server.start()
    assert_served(server, everything)
    server.stop()


def test_after_kill9_of_a_store_that_never_flushed_the_original_goes_on(make_server):
    server = make_server().start()
    api = server.api()
    api.create(STORE).expect(201)
    append(api, FIRST)
    append(api, SECOND)
    server.kill9()

    theirs = [plain("theirs")]
    assert_original_reads(server, FIRST + SECOND + theirs, add(theirs), FLUSH)
    server.start()
    assert_served(server, FIRST + SECOND + theirs)
    server.stop()
