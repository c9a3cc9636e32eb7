"""All real experiments, loaded through the real client and read back field by field, whatever happened in between.

The tests run in this order on one server: each leads the loaded data through one more event.
"""

import pytest
from lance_context import RolloutStore

from harness.expected_rows import assert_rows
from harness.records import real_experiments

BATCH = 64
EXPERIMENTS = 74


@pytest.fixture(scope="module")
def experiments():
    found = real_experiments()
    assert len(found) == EXPERIMENTS, f"{len(found)} experiments, expected {EXPERIMENTS}"
    return found


@pytest.fixture(scope="module")
def loaded(module_server, experiments):
    for name, records in experiments.items():
        store = RolloutStore.connect_or_create(module_server.url, name)
        for start in range(0, len(records), BATCH):
            batch = records[start:start + BATCH]
            receipt = store.add(batch)
            assert receipt["ids"] == [record["id"] for record in batch]
            assert receipt["count"] == len(batch)
    return module_server


def assert_everything_reads_back(server, experiments) -> None:
    for name, records in experiments.items():
        store = RolloutStore.connect(server.url, name)
        assert_rows(records, store.list())
        for record in (records[0], records[len(records) // 2], records[-1]):
            assert_rows([record], [store.get(record["id"])])
        rollout = records[-1]["rollout_id"]
        trajectory = sorted((r for r in records if r["rollout_id"] == rollout), key=lambda r: (r["sequence_order"], r["id"]))
        assert_rows(trajectory, store.get_trajectory(rollout))


def test_every_row_reads_back_at_once(loaded, experiments):
    assert_everything_reads_back(loaded, experiments)


def test_every_row_reads_back_from_the_log_after_kill9(loaded, experiments):
    loaded.kill9()
    loaded.start()
    assert_everything_reads_back(loaded, experiments)


def test_every_row_reads_back_after_a_flush(loaded, experiments):
    api = loaded.api()
    for name in experiments:
        assert 200 <= api.flush(name).status < 300
    assert_everything_reads_back(loaded, experiments)


def test_every_row_reads_back_from_generations_after_kill9(loaded, experiments):
    loaded.kill9()
    loaded.start()
    assert_everything_reads_back(loaded, experiments)


def test_every_row_reads_back_after_a_clean_restart(loaded, experiments):
    loaded.restart()
    assert_everything_reads_back(loaded, experiments)


def test_the_registry_lists_every_experiment(loaded, experiments):
    listed = {store["name"] for store in loaded.api().get("/api/v1/rollouts").expect(200).json()["stores"]}
    assert listed == set(experiments)
