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
from services.home.paths import HomePaths
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
    """The files below a folder, all of which came with news."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(path.parents[1] == folder / "received" for path in found)
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

        for number, (name, stored) in enumerate(names.items()):
            path = await downloads.fetch(told(wire, name, f"dlv_{number}"))
            assert path.name == stored
        again = [await downloads.fetch(told(wire, "a.txt", name)) for name in ("dlv_0", "dlv_x")]
        assert [path.name for path in again] == ["a.txt", "a.txt"]
    found = await asyncio.to_thread(contents, tmp_path)
    assert (len(found), set(found.values())) == (len(names) + 1, {DATA})


async def test_what_failed_is_left_to_the_next_terminal_unless_it_is_gone(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        for wrong in (DATA[:-1], DATA + b"x"):
            news = told(wire, "a.txt", stored=wrong)
            with pytest.raises(Unavailable):
                await Downloads(channel, "", home).fetch(news)
        assert await Downloads(channel, "work", home).pending() == []
        later = Downloads(channel, "default", home)
        assert await later.pending() == [news]
        wire.deliveries.files.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await later.fetch(news)
        assert await later.pending() == []
        failed = told(wire, "b.txt", "dlv_2", DATA[:-1])
        with pytest.raises(Unavailable):
            await later.fetch(failed)
        told(wire, "b.txt", "dlv_2")
        path = await later.fetch(*await later.pending())
    assert await asyncio.to_thread(contents, tmp_path) == {path: DATA}
