"""Files that come with news: downloaded from the gateway into the home.

Each is noted in the home until it is there or is gone from the gateway: what a terminal that ends
meanwhile has not downloaded, the next one does.
"""

import asyncio
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
    """A file to download."""

    path: Path
    """Of the note."""
    reply: ConverseResponse.Reply


class Downloads:
    """The files of a profile's news."""

    def __init__(self, gateway: grpc.aio.Channel, profile: str, home: HomePaths) -> None:
        self._gateway = gateway
        self._profile = profile or DEFAULT_PROFILE
        self._folder = home.received
        self._notes = home.run / "unfetched"

    async def note(self, reply: ConverseResponse.Reply) -> Note:
        """Note that a file is to be downloaded."""
        digest = hashlib.sha256(f"{reply.delivery_id}/{reply.attachment.sha256.hex()}".encode())
        path = self._notes / f"{self._profile}.{digest.hexdigest()[:32]}"
        await asyncio.to_thread(_write, path, reply.SerializeToString())
        return Note(path, reply)

    async def left(self) -> list[Note]:
        """What is noted, also by other terminals."""
        return await asyncio.to_thread(_read, self._notes, f"{self._profile}.*")

    async def fetch(self, note: Note) -> Path:
        """Put a file into the home; returns where it is.

        It stays noted when that fails, unless the gateway has no such file any more.
        """
        try:
            path = await self._download(note.reply)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                await asyncio.to_thread(note.path.unlink, missing_ok=True)
            raise
        await asyncio.to_thread(note.path.unlink, missing_ok=True)
        return path

    async def _download(self, reply: ConverseResponse.Reply) -> Path:
        file = reply.attachment
        request = DownloadAttachmentRequest(
            delivery_id=reply.delivery_id, profile=self._profile, sha256=file.sha256
        )
        data = bytearray()
        stub = DeliveryServiceStub(self._gateway)
        async with open_stream(stub.DownloadAttachment(request)) as call:
            async for message in call:
                data += message.chunk
        if hashlib.sha256(data).digest() != file.sha256:
            raise Unavailable("it did not come whole")
        return await asyncio.to_thread(_store, self._folder, file.name, data)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, content, 0o600)


def _read(folder: Path, pattern: str) -> list[Note]:
    found: list[Note] = []
    for path in sorted(folder.glob(pattern)):
        # Another terminal may have downloaded it meanwhile.
        with suppress(FileNotFoundError):
            found.append(Note(path, ConverseResponse.Reply.FromString(path.read_bytes())))
    return found


def _store(folder: Path, name: str, data: bytearray) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The name comes from others: it chooses no folder and hides nothing.
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
