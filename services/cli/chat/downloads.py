"""Downloads of files that come with news from the gateway.

The home lists pending files, so the next terminal can finish a download. Several terminals with the
same news write the same file.
"""

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path, PurePosixPath

import grpc
import grpc.aio

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import DownloadAttachmentRequest
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import HermesError, Unavailable, message_of
from services.home.paths import DEFAULT_PROFILE, HomePaths, replace_file
from services.rpc.streams import open_stream

LATER = "; the next hermes chat tries again"
MAX_STEM_BYTES, MAX_SUFFIX_CHARS = 200, 10


class Downloads:
    """The files of a profile's news."""

    def __init__(self, gateway: grpc.aio.Channel, profile: str, home: HomePaths) -> None:
        self._gateway = gateway
        self._profile = profile or DEFAULT_PROFILE
        self._folder = home.received
        self._notes = home.run / "unfetched"

    async def pending(self) -> list[ConverseResponse.Reply]:
        """Return news with pending files, also of other terminals."""
        return await asyncio.to_thread(_read, self._notes, f"{self._profile}.*")

    async def fetch(self, reply: ConverseResponse.Reply) -> Path:
        """Download the file of news; return its path. After a failure it usually stays pending."""
        key = _key(reply)
        note = self._notes / f"{self._profile}.{key}"
        await asyncio.to_thread(replace_file, note, reply.SerializeToString(), 0o600)
        path = self._folder / key / _file_name(reply.attachment.name)
        try:
            data = await self._download(reply)
            await asyncio.to_thread(replace_file, path, data, 0o600)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                await asyncio.to_thread(note.unlink, missing_ok=True)
            raise
        await asyncio.to_thread(note.unlink, missing_ok=True)
        return path

    async def receive(self, reply: ConverseResponse.Reply) -> tuple[str, str]:
        """Download the file of news; return what to show, and its style."""
        file = reply.attachment
        try:
            path = await self.fetch(reply)
        except grpc.aio.AioRpcError as error:
            later = "" if error.code() is grpc.StatusCode.NOT_FOUND else LATER
            return f"cannot download {file.name}: {message_of(error)}{later}", "red"
        except (OSError, HermesError) as error:
            return f"cannot download {file.name}: {error}{LATER}", "red"
        return f"{reply.text}{file.name} ({file.length_bytes:,} bytes) was saved as {path}", ""

    async def _download(self, reply: ConverseResponse.Reply) -> bytes:
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
            raise Unavailable("the download is incomplete")
        return bytes(data)


def _read(folder: Path, pattern: str) -> list[ConverseResponse.Reply]:
    found: list[ConverseResponse.Reply] = []
    for path in sorted(folder.glob(pattern)):
        with suppress(FileNotFoundError):  # another terminal has fetched it
            found.append(ConverseResponse.Reply.FromString(path.read_bytes()))
    return found


def _key(reply: ConverseResponse.Reply) -> str:
    name = f"{reply.delivery_id}/{reply.attachment.sha256.hex()}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _file_name(name: str) -> str:
    # The name is untrusted: no folders, no hidden files.
    plain = PurePosixPath(name.replace("/", "_").lstrip(".") or "file")
    stem = plain.stem.encode()[:MAX_STEM_BYTES].decode(errors="ignore")
    return f"{stem}{plain.suffix[:MAX_SUFFIX_CHARS]}"
