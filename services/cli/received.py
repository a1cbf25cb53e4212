"""Files that come with news: fetched from the gateway into the home.

Each is noted there before it is fetched, and until it is there or is no more: what a terminal that
ends meanwhile has not fetched, the next one does.
"""

import asyncio
import fcntl
import hashlib
import os
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath

import grpc
import grpc.aio
from msgspec import Struct

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import DownloadAttachmentRequest
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import Unavailable
from services.home import DEFAULT_PROFILE, HomePaths, replace_file
from services.streams import open_stream

MAX_STEM_BYTES, MAX_SUFFIX_CHARS = 200, 10


class Note(Struct, frozen=True):
    """A file that is to be fetched."""

    path: Path
    """Of the note."""
    told: ConverseResponse.Reply


class Receiver:
    """Fetches the files of a profile's news."""

    def __init__(self, gateway: grpc.aio.Channel, profile: str, home: HomePaths) -> None:
        self._gateway = gateway
        self._profile = profile or DEFAULT_PROFILE
        self._folder = home.received
        self._notes = home.run / "unfetched"

    async def note(self, told: ConverseResponse.Reply) -> Note:
        """Note that a file is to be fetched."""
        digest = hashlib.sha256(f"{told.delivery_id}/{told.attachment.sha256.hex()}".encode())
        path = self._notes / f"{self._profile}.{digest.hexdigest()[:32]}"
        await asyncio.to_thread(_write, path, told.SerializeToString())
        return Note(path, told)

    async def left(self) -> list[Note]:
        """What is noted, also by other terminals."""
        return await asyncio.to_thread(_read, self._notes, f"{self._profile}.*")

    async def fetch(self, note: Note) -> Path | None:
        """Put a file into the home; returns where it is, or None where another terminal does so.

        It stays noted when that fails, unless there is no such file any more.
        """
        held = await asyncio.to_thread(_hold, note.path)
        if held is None:
            return None
        try:
            path = await receive(self._gateway, self._profile, note.told, self._folder)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                await asyncio.to_thread(note.path.unlink, missing_ok=True)
            raise
        else:
            await asyncio.to_thread(note.path.unlink, missing_ok=True)
            return path
        finally:
            os.close(held)


async def receive(
    gateway: grpc.aio.Channel, profile: str, told: ConverseResponse.Reply, folder: Path
) -> Path:
    """Put the file of a piece of news into a folder, beside what is there; returns where it is."""
    file = told.attachment
    request = DownloadAttachmentRequest(
        delivery_id=told.delivery_id, profile=profile, sha256=file.sha256
    )
    data = bytearray()
    async with open_stream(DeliveryServiceStub(gateway).DownloadAttachment(request)) as call:
        async for message in call:
            data += message.chunk
    if hashlib.sha256(data).digest() != file.sha256:
        raise Unavailable("it did not come whole")
    return await asyncio.to_thread(_store, folder, file.name, data)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, content, 0o600)


def _read(folder: Path, pattern: str) -> list[Note]:
    found: list[Note] = []
    for path in sorted(folder.glob(pattern)):
        # Another terminal may have fetched it meanwhile.
        with suppress(FileNotFoundError):
            found.append(Note(path, ConverseResponse.Reply.FromString(path.read_bytes())))
    return found


def _hold(path: Path) -> int | None:
    """Open a note that nobody else holds; None where somebody does, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _store(folder: Path, name: str, data: bytearray) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whoever chose the name chooses neither the folder nor what the file hides behind.
    plain = PurePosixPath(name.replace("/", "_").lstrip(".") or "file")
    stem = plain.stem.encode()[:MAX_STEM_BYTES].decode(errors="ignore")
    for number in count(1):
        more = f"-{number}" if number > 1 else ""
        path = folder / f"{stem}{more}{plain.suffix[:MAX_SUFFIX_CHARS]}"
        try:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(opened, "wb") as written:
            written.write(data)
        return path
    raise AssertionError("numbers do not end")
