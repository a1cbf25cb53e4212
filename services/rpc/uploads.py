"""Files that are uploaded in chunks after a header with their length and digest."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Protocol, TypeVar, cast

from google.protobuf.message import Message

from services.errors import DigestMismatch, InvalidArgument

MAX_BYTES = 50_000_000
"""The limit for one file; Telegram accepts no more from bots."""
CHUNK_BYTES = 1024 * 1024
SHA256_BYTES = 32


_T = TypeVar("_T")


class _Chunk(Protocol):
    chunk: bytes


def wrong_contents(length_bytes: int, sha256: bytes) -> dict[str, str]:
    """Return what is wrong with an announcement, by field."""
    wrong: dict[str, str] = {}
    if not 1 <= length_bytes <= MAX_BYTES:
        wrong["length_bytes"] = f"1 to {MAX_BYTES:,}"
    if len(sha256) != SHA256_BYTES:
        wrong["sha256"] = f"{SHA256_BYTES} bytes"
    return wrong


def chunks(data: bytes, size_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the pieces of a file."""
    for start in range(0, len(data), size_bytes):
        yield data[start : start + size_bytes]


async def upload_messages(
    kind: Callable[..., _T], header: object, data: bytes, size_bytes: int = CHUNK_BYTES
) -> AsyncGenerator[_T]:
    """Yield the messages of an upload: its header, then the data in chunks."""
    yield kind(header=header)
    for chunk in chunks(data, size_bytes):
        yield kind(chunk=chunk)


async def read_contents(
    requests: AsyncIterator[Message], length_bytes: int, sha256: bytes
) -> bytes:
    """Return the announced contents from the messages after the header, or raise DigestMismatch."""
    data, digest = bytearray(), hashlib.sha256()
    async for request in requests:
        chunk = cast("_Chunk", request).chunk if request.HasField("chunk") else None
        if chunk is None or len(chunk) > CHUNK_BYTES:
            raise InvalidArgument(
                "a file is sent in chunks", fields={"chunk": f"at most {CHUNK_BYTES:,} bytes"}
            )
        data += chunk
        # Chunk by chunk, so as not to block the event loop.
        digest.update(chunk)
        if len(data) > length_bytes:
            break
    if len(data) != length_bytes or digest.digest() != sha256:
        raise DigestMismatch("what came is not what was announced; nothing was stored")
    return bytes(data)
