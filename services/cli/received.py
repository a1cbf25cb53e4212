"""Files that come with news: fetched from the gateway into the home."""

import asyncio
import hashlib
import os
from itertools import count
from pathlib import Path, PurePosixPath

import grpc.aio

from hermes.gateway.v1.conversation_pb2 import ConverseResponse
from hermes.gateway.v1.delivery_pb2 import DownloadAttachmentRequest
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import Unavailable
from services.streams import open_stream

MAX_STEM_BYTES, MAX_SUFFIX_CHARS = 200, 10


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
