"""The unmodified Python client, async: the same calls awaited, and many handles at once."""

import asyncio

import pytest
from lance_context import AsyncRolloutStore

from harness.expected_rows import assert_rows
from harness.records import FULL, MINIMAL, plain, with_payload

pytestmark = pytest.mark.asyncio


async def test_every_method(module_server, store_name):
    with pytest.raises(RuntimeError, match=r"^API error \(404\b"):
        await AsyncRolloutStore.connect(module_server.url, store_name)
    store = await AsyncRolloutStore.connect_or_create(module_server.url, store_name, storage_options=None)
    version = store.version()
    assert repr(store) == f"AsyncRolloutStore(version={version})"

    receipt = await store.add([FULL, MINIMAL])
    assert receipt == {"version": version, "ids": ["full", "minimal"], "count": 2}
    blob = with_payload("blob", b"\x00\x01\x02", sequence_order=-5)
    assert (await store.add_one(**blob))["ids"] == ["blob"]
    everything = [FULL, MINIMAL, blob]

    assert_rows(everything, await store.list())
    assert await store.flush() is None
    assert_rows(everything[1:2], await store.list(limit=1, offset=1))
    assert_rows([blob], await store.list(filters={"artifact_type": "blob"}))
    assert_rows([FULL], [await store.get("full")])
    assert await store.get("absent") is None
    assert await store.get_blob("blob") == b"\x00\x01\x02"
    assert await store.get_blob("full") is None
    assert [row["id"] for row in await store.get_trajectory("r-1")] == ["minimal", "full"]

    again = await AsyncRolloutStore.connect(module_server.url, store_name)
    assert_rows(everything, await again.list())
    with pytest.raises(RuntimeError):
        await store.checkout(version + 1000)
    with pytest.raises(RuntimeError, match="reward"):
        await store.list(filters={"reward": 1})


async def test_many_handles_write_and_read_at_once(module_server, store_name):
    await AsyncRolloutStore.connect_or_create(module_server.url, store_name)

    async def writer(number: int) -> None:
        handle = await AsyncRolloutStore.connect(module_server.url, store_name)
        for turn in range(10):
            await handle.add([plain(f"{number}-{turn}", rollout_id=f"r{number}", sequence_order=turn)])
            assert len(await handle.get_trajectory(f"r{number}")) == turn + 1

    await asyncio.gather(*(writer(number) for number in range(8)))
    store = await AsyncRolloutStore.connect(module_server.url, store_name)
    rows = await asyncio.gather(*(store.list() for _ in range(4)))
    expected = [plain(f"{n}-{t}", rollout_id=f"r{n}", sequence_order=t) for n in range(8) for t in range(10)]
    for found in rows:
        assert_rows(expected, found, ordered=False)


async def test_checkout_of_the_current_version(module_server, store_name):
    store = await AsyncRolloutStore.connect_or_create(module_server.url, store_name)
    await store.checkout(store.version())
    assert await store.list() == []
