"""Files that go with a question: the agent gets them before it is asked."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import grpc.aio

from hermes.agent.v1.upload_pb2 import UploadFileRequest
from hermes.agent.v1.upload_pb2_grpc import UploadServiceStub
from hermes.common.v1.content_pb2 import (
    FILE_KIND_AUDIO,
    FILE_KIND_DOCUMENT,
    FILE_KIND_IMAGE,
    FILE_KIND_VIDEO,
    MessageFile,
)
from services.errors import InvalidArgument
from services.home.media_types import media_type
from services.rpc.channels import Channels
from services.rpc.uploads import MAX_BYTES, upload_messages

_KINDS = {"image": FILE_KIND_IMAGE, "audio": FILE_KIND_AUDIO, "video": FILE_KIND_VIDEO}


async def upload(channels: Channels, paths: Sequence[str]) -> list[MessageFile]:
    """Give files to the agent; InvalidArgument if one cannot be read."""
    files: list[MessageFile] = []
    for path in map(Path, paths):
        data, mime_type = await asyncio.to_thread(_read, path)
        files.append(await upload_data(channels.to("agent"), path.name, mime_type, data))
    return files


async def upload_data(
    agent: grpc.aio.Channel, name: str, mime_type: str, data: bytes
) -> MessageFile:
    """Give a file to the agent."""
    digest = hashlib.sha256(data).digest()
    header = UploadFileRequest.Header(length_bytes=len(data), sha256=digest)
    upload = UploadServiceStub(agent).UploadFile
    await upload(upload_messages(UploadFileRequest, header, data))
    return MessageFile(
        kind=_KINDS.get(mime_type.partition("/")[0], FILE_KIND_DOCUMENT),
        name=name,
        mime_type=mime_type,
        length_bytes=len(data),
        sha256=digest,
    )


def _read(path: Path) -> tuple[bytes, str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    if not 1 <= len(data) <= MAX_BYTES:
        raise InvalidArgument(f"{path} must have 1 to {MAX_BYTES:,} bytes")
    return data, media_type(path.name, "")
