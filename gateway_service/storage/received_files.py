"""Received files, on disk until the agent has them."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from gateway_service.errors import Refused


class ReceivedFile(Struct, frozen=True):
    """A file without a name, which is gone once it is closed."""

    file: IO[bytes]
    length_bytes: int
    sha256: str

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return a piece of the file. Blocks."""
        return os.pread(self.file.fileno(), max_bytes, offset)


@asynccontextmanager
async def receive(
    folder: Path, chunks: AsyncIterable[bytes], max_bytes: int
) -> AsyncGenerator[ReceivedFile]:
    """Keep a file in a folder while inside; Refused if it is larger than `max_bytes`, or empty."""
    digest, length = hashlib.sha256(), 0
    with await asyncio.to_thread(tempfile.TemporaryFile, dir=folder) as file:
        async for chunk in chunks:
            length += len(chunk)
            if length > max_bytes:
                raise too_large(max_bytes)
            digest.update(chunk)
            await asyncio.to_thread(file.write, chunk)
        if not length:
            raise Refused("it is empty")
        await asyncio.to_thread(file.flush)
        yield ReceivedFile(file, length, digest.hexdigest())


def too_large(max_bytes: int) -> Refused:
    """Return the refusal of a file that is larger than the limit."""
    return Refused(f"it is larger than {max_bytes // 1_000_000} MB")
