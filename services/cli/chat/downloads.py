"""Files that come with news: downloaded from the gateway into the home.

Each is noted in the home, and the note is cut when the file is there or is gone from the
gateway: what a terminal that ends meanwhile has not downloaded, the next one does, and of several
terminals that are open only one.
"""

import asyncio
import fcntl
import hashlib
import os
import time
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath

import grpc
import grpc.aio

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import DownloadAttachmentRequest
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import Unavailable
from services.home import DEFAULT_PROFILE, HomePaths
from services.streams import open_stream

FETCHED_BYTES = 1
"""What is left of the note of a file that needs no more to be fetched."""
KEPT_S = 24 * 3600.0
"""How long that is left for other terminals, which hear the same news."""
MAX_STEM_BYTES, MAX_SUFFIX_CHARS = 200, 10


class Downloads:
    """The files of a profile's news."""

    def __init__(self, gateway: grpc.aio.Channel, profile: str, home: HomePaths) -> None:
        self._gateway = gateway
        self._profile = profile or DEFAULT_PROFILE
        self._folder = home.received
        self._notes = home.run / "unfetched"

    async def left(self) -> list[ConverseResponse.Reply]:
        """News with files that are noted, also by other terminals."""
        return await asyncio.to_thread(_read, self._notes, f"{self._profile}.*")

    async def fetch(self, reply: ConverseResponse.Reply) -> Path | None:
        """Put the file of news into the home; returns where it is, or None where another terminal
        does that.

        It stays noted when that fails, unless the gateway has no such file any more.
        """
        digest = hashlib.sha256(f"{reply.delivery_id}/{reply.attachment.sha256.hex()}".encode())
        note = self._notes / f"{self._profile}.{digest.hexdigest()[:32]}"
        held = await asyncio.to_thread(_hold, note, reply.SerializeToString())
        if held is None:
            return None
        try:
            path = await self._download(reply)
            os.ftruncate(held, FETCHED_BYTES)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                os.ftruncate(held, FETCHED_BYTES)
            raise
        else:
            return path
        finally:
            os.close(held)

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


def _read(folder: Path, pattern: str) -> list[ConverseResponse.Reply]:
    found: list[ConverseResponse.Reply] = []
    for path in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError):  # another terminal looks through them, too
            if len(content := path.read_bytes()) > FETCHED_BYTES:
                found.append(ConverseResponse.Reply.FromString(content))
            elif time.time() - path.stat().st_mtime > KEPT_S:
                path.unlink()
    return found


def _hold(note: Path, content: bytes) -> int | None:
    """Write a note unless it is there, and lock it until it is closed.

    None where another terminal holds it, or the file was fetched.
    """
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found_bytes = os.fstat(descriptor).st_size
        if not found_bytes:
            os.write(descriptor, content)
        if found_bytes != FETCHED_BYTES:
            return descriptor
    os.close(descriptor)
    return None


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
