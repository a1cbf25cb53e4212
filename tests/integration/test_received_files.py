"""Files that come with news: where a terminal puts them, whatever they are called."""

import asyncio
import hashlib
from pathlib import Path

import grpc
import grpc.aio
import pytest

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import Attachment
from services.cli.chat.downloads import Downloads
from services.errors import Unavailable
from services.home import HomePaths
from tests.integration.scheduler_parts import Wire, fake_services

DATA = bytes(range(256)) * 9


def told(
    wire: Wire, name: str, delivery_id: str = "dlv_1", stored: bytes = DATA
) -> ConverseResponse.Reply:
    """News of a file, with what the gateway has stored for it."""
    digest = hashlib.sha256(DATA).digest()
    wire.deliveries.files[delivery_id, digest] = stored
    file = Attachment(name=name, length_bytes=len(DATA), sha256=digest)
    return ConverseResponse.Reply(attachment=file, delivery_id=delivery_id)


def contents(folder: Path) -> dict[Path, bytes]:
    """The files below a folder, all of which came with news; notes may be left of them."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = {path: data for path, data in found.items() if "unfetched" not in path.parts}
    assert all(path.parent == folder / "received" for path in found)
    return found


async def test_a_file_stays_in_its_folder_and_replaces_nothing(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    names = {
        "a.txt": "a.txt",
        ".bashrc": "bashrc",
        "..": "file",
        "../../etc/cron.d/x": "_.._etc_cron.d_x",
        f"{'ä' * 120}.txt": f"{'ä' * 100}.txt",
    }
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        downloads = Downloads(channel, "", home)

        async def fetched(name: str, delivery_id: str) -> Path | None:
            return await downloads.fetch(told(wire, name, delivery_id))

        for number, (name, stored) in enumerate(names.items()):
            assert await fetched(name, f"dlv_{number}") == home.received / stored
        assert await fetched("a.txt", "dlv_x") == home.received / "a-2.txt"
        assert await fetched("a.txt", "dlv_y") == home.received / "a-3.txt"
    assert set((await asyncio.to_thread(contents, tmp_path)).values()) == {DATA}


async def test_of_two_terminals_one_fetches_a_file(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        both = [Downloads(channel, "", home) for _ in range(2)]
        found = await asyncio.gather(*(each.fetch(told(wire, "a.txt")) for each in both))
        assert sorted(found, key=bool) == [None, home.received / "a.txt"]
        late = Downloads(channel, "", home)
        assert await late.fetch(told(wire, "a.txt")) is None
        assert await late.left() == []
    assert await asyncio.to_thread(contents, tmp_path) == {home.received / "a.txt": DATA}


async def test_what_failed_is_left_to_the_next_terminal_unless_it_is_gone(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        for wrong in (DATA[:-1], DATA + b"x"):
            news = told(wire, "a.txt", stored=wrong)
            with pytest.raises(Unavailable):
                await Downloads(channel, "", home).fetch(news)
        assert await Downloads(channel, "work", home).left() == []
        later = Downloads(channel, "default", home)
        assert await later.left() == [news]
        wire.deliveries.files.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await later.fetch(news)
        assert await later.left() == []
        failed = told(wire, "b.txt", "dlv_2", DATA[:-1])
        with pytest.raises(Unavailable):
            await later.fetch(failed)
        told(wire, "b.txt", "dlv_2")
        assert await later.fetch(*await later.left()) == home.received / "b.txt"
    assert await asyncio.to_thread(contents, tmp_path) == {home.received / "b.txt": DATA}
