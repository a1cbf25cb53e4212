"""Every store of profiles keeps documents in the same way."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_service.storage.profiles import ProfileStore
from services.errors import FailedPrecondition, Unavailable
from tests.support.profile_stores import stores

NAME = "memories/MEMORY.md"


@pytest.fixture
async def store(profiles_url: str, tmp_path: Path) -> AsyncIterator[ProfileStore]:
    """Each store in turn, empty."""
    async with stores(profiles_url, tmp_path, wait_s=1) as opened:
        yield opened.documents


async def write(store: ProfileStore, data: bytes, profile: str = "default") -> None:
    async with store.opened(profile, NAME) as document:
        await document.replace(data)


async def test_what_is_not_there_is_empty(store: ProfileStore) -> None:
    assert await store.read("default", NAME, "SOUL.md") == [b"", b""]
    async with store.opened("default", NAME) as document:
        assert document.data == b""


async def test_bytes_are_kept_as_they_are(store: ProfileStore) -> None:
    data = bytes(range(256)) * 3
    await write(store, data)
    assert await store.read("default", NAME) == [data]
    async with store.opened("default", NAME) as document:
        assert document.data == data
        await document.replace(b"")
        assert document.data == b""
    assert await store.read("default", NAME) == [b""]


async def test_profiles_are_apart(store: ProfileStore) -> None:
    await write(store, b"one")
    await write(store, b"two", "other")
    assert await store.read("default", NAME) == [b"one"]
    assert await store.read("other", NAME) == [b"two"]
    with pytest.raises(FailedPrecondition, match="letters, digits"):
        await store.read("../default", NAME)


async def test_who_is_cancelled_leaves_a_document_free(store: ProfileStore) -> None:
    holding = asyncio.Event()

    async def hold() -> None:
        async with store.opened("default", NAME):
            holding.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await holding.wait()
    task.cancel()
    await asyncio.wait([task])
    await write(store, b"free")
    assert await store.read("default", NAME) == [b"free"]


async def test_who_holds_a_document_for_long_is_not_waited_for(store: ProfileStore) -> None:
    async with store.opened("default", NAME):
        with pytest.raises(Unavailable, match="another program holds"):
            await write(store, b"")


async def test_among_many_who_want_a_document_nobody_starves(
    profiles_url: str, tmp_path: Path
) -> None:
    """Whoever waits sees each of the others at most once before them."""
    uses, most_before = 0, 0

    async def use(store: ProfileStore) -> None:
        nonlocal uses, most_before
        for _ in range(8):
            asked_at = uses
            async with store.opened("default", NAME):
                most_before = max(most_before, uses - asked_at)
                uses += 1
                await asyncio.sleep(0.002)

    async with stores(profiles_url, tmp_path) as opened:
        await asyncio.gather(*[use(opened.documents) for _ in range(16)])
    assert uses == 8 * 16
    assert most_before <= 15
