"""Files that go with deliveries: stored before their delivery is, gone when it is done."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from gateway_service.errors import DigestMismatch
from gateway_service.storage import attachments
from gateway_service.storage.attachments import FileKey
from services.clock import Clock
from services.database import Database
from services.errors import NotFound
from services.ids import new_id

MAX_BYTES = 50_000_000
"""Of one file, and of all files of a delivery; more than that Telegram does not take of a bot."""
PIECE_BYTES = 1024 * 1024


class Attachments:
    """Keeps files in the database, where whoever sends them finds them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def store(self, key: FileKey, length_bytes: int, chunks: AsyncIterator[bytes]) -> None:
        """Store a file as a whole, or nothing of it; one that is stored is not read again."""
        if await self._database.read(lambda conn: attachments.whole(conn, key)) is not None:
            return
        upload_id, now = new_id("att"), self._clock.now()
        await self._database.write(
            lambda conn: attachments.begin(conn, upload_id, key, length_bytes, now)
        )
        is_whole = False
        try:
            await self._fill(upload_id, key, length_bytes, chunks)
            is_whole = await self._database.write(lambda conn: attachments.finish(conn, upload_id))
        finally:
            if not is_whole:
                await self._database.write(lambda conn: attachments.drop(conn, [upload_id]))

    async def read(self, key: FileKey) -> AsyncGenerator[bytes]:
        """What is in a file, piece by piece; NotFound when it is not stored, or not any more."""
        found = await self._database.read(lambda conn: attachments.whole(conn, key))
        if found is None:
            raise NotFound("there is no such file")
        (upload_id, left), position = found, 0
        while left > 0:
            piece = await self._piece(upload_id, position)
            if piece is None:
                raise NotFound("the file was deleted while it was read")
            yield piece
            left -= len(piece)
            position += 1

    async def _piece(self, upload_id: str, position: int) -> bytes | None:
        return await self._database.read(lambda conn: attachments.piece(conn, upload_id, position))

    async def _fill(
        self, upload_id: str, key: FileKey, length_bytes: int, chunks: AsyncIterator[bytes]
    ) -> None:
        digest, received, position = hashlib.sha256(), 0, 0
        async with aclosing(_pieces(chunks)) as pieces:
            async for piece in pieces:
                received += len(piece)
                if received > length_bytes:
                    break
                digest.update(piece)
                await self._add(upload_id, position, piece)
                position += 1
        if received != length_bytes or digest.hexdigest() != key.sha256:
            raise DigestMismatch("what came is not what was announced; nothing was stored")

    async def _add(self, upload_id: str, position: int, piece: bytes) -> None:
        await self._database.write(
            lambda conn: attachments.add_piece(conn, upload_id, position, piece)
        )


async def _pieces(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes in pieces of one length, but for the last."""
    waiting = bytearray()
    async for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)
