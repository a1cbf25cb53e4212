"""Files that go with deliveries: stored before their delivery is, gone when it is done."""

import hashlib
from collections.abc import AsyncIterator
from functools import partial

from gateway_service.errors import DigestMismatch
from gateway_service.storage import attachments
from gateway_service.storage.attachments import FileKey
from services.clock import Clock
from services.database import Database
from services.errors import NotFound

MAX_BYTES = 50_000_000
"""Of one file, and of all files of a delivery; more than that Telegram does not take of a bot."""


class Attachments:
    """Keeps files in the database, where whoever sends them finds them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def store(self, key: FileKey, length_bytes: int, chunks: AsyncIterator[bytes]) -> None:
        """Store a file as a whole, or nothing of it; one that is stored is not read again."""
        if await self._database.read(partial(attachments.length_of, key=key)) is not None:
            return
        data = bytearray()
        async for chunk in chunks:
            data += chunk
            if len(data) > length_bytes:
                break
        if len(data) != length_bytes or hashlib.sha256(data).hexdigest() != key.sha256:
            raise DigestMismatch("what came is not what was announced; nothing was stored")
        now = self._clock.now()
        await self._database.write(partial(attachments.put, key=key, data=bytes(data), now=now))

    async def read(self, key: FileKey) -> bytes:
        """What is in a file; NotFound when it is not stored, or not any more."""
        found = await self._database.read(partial(attachments.data_of, key=key))
        if found is None:
            raise NotFound("there is no such file")
        return found
