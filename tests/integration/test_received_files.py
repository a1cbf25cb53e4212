"""Files that come with news: where a terminal puts them, whatever they are called."""

import asyncio
import hashlib
from pathlib import Path

import grpc
import grpc.aio
import pytest

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import Attachment
from services.cli.received import Receiver, receive
from services.errors import Unavailable
from services.home import HomePaths
from tests.integration.scheduler_parts import Wire, fake_services

DATA = bytes(range(256)) * 9


def told(wire: Wire, name: str, stored: bytes = DATA) -> ConverseResponse.Reply:
    """News of a file, with what the gateway has stored for it."""
    digest = hashlib.sha256(DATA).digest()
    wire.deliveries.files["dlv_1", digest] = stored
    file = Attachment(name=name, length_bytes=len(DATA), sha256=digest)
    return ConverseResponse.Reply(attachment=file, delivery_id="dlv_1")


def contents(folder: Path) -> dict[Path, bytes]:
    """The files below a folder, all of which came with news."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(path.parent == folder / "received" for path in found)
    return found


async def test_a_file_stays_in_its_folder_and_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "received"
    names = {
        "a.txt": "a.txt",
        ".bashrc": "bashrc",
        "..": "file",
        "../../etc/cron.d/x": "_.._etc_cron.d_x",
        f"{'ä' * 120}.txt": f"{'ä' * 100}.txt",
    }
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        for name, stored in names.items():
            assert await receive(channel, "", told(wire, name), folder) == folder / stored
        assert (await receive(channel, "", told(wire, "a.txt"), folder)).name == "a-2.txt"
        assert (await receive(channel, "", told(wire, "a.txt"), folder)).name == "a-3.txt"
    assert set((await asyncio.to_thread(contents, tmp_path)).values()) == {DATA}


async def test_what_is_not_the_file_is_not_kept(tmp_path: Path) -> None:
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        for wrong in (DATA[:-1], DATA + b"x"):
            with pytest.raises(Unavailable):
                await receive(channel, "", told(wire, "a.txt", wrong), tmp_path / "received")
        gone = told(wire, "a.txt")
        wire.deliveries.files.clear()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await receive(channel, "", gone, tmp_path / "received")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert await asyncio.to_thread(contents, tmp_path) == {}


async def test_what_a_terminal_leaves_the_next_one_fetches_once(tmp_path: Path) -> None:
    home = HomePaths(tmp_path, tmp_path)
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        killed = Receiver(channel, "", home)
        await killed.note(told(wire, "a.txt"))
        assert await Receiver(channel, "work", home).left() == []
        first, second = Receiver(channel, "default", home), Receiver(channel, "", home)
        [note], [same] = await first.left(), await second.left()
        paths = await asyncio.gather(first.fetch(note), second.fetch(same))
        assert set(paths) == {None, tmp_path / "received" / "a.txt"}
        assert await second.left() == []
    found = await asyncio.to_thread(contents, tmp_path)
    assert found == {tmp_path / "received" / "a.txt": DATA}


async def test_what_failed_stays_noted_unless_it_is_gone(tmp_path: Path) -> None:
    async with fake_services() as wire, grpc.aio.insecure_channel(wire.address) as channel:
        receiver = Receiver(channel, "", HomePaths(tmp_path, tmp_path))
        note = await receiver.note(told(wire, "a.txt", DATA[:-1]))
        with pytest.raises(Unavailable):
            await receiver.fetch(note)
        assert await receiver.left() == [note]
        wire.deliveries.files.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await receiver.fetch(note)
        assert await receiver.left() == []
