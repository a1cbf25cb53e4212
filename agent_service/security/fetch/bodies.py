"""The body of an answer, never more of it than was asked for."""

import zlib
from collections.abc import AsyncIterator

from agent_service.security.fetch.destinations import FetchFailed

_WINDOW_BITS = 47
"""Of zlib: gzip and zlib, told apart by their headers."""
_PIECE_BYTES = 64 * 1024


class Body:
    """Gathers a body as it comes, decompressed, up to a size."""

    def __init__(self, encoding: str, limit_bytes: int) -> None:
        """`encoding` is the Content-Encoding; FetchFailed for one that nobody asked for."""
        self.data = bytearray()
        self.is_cut = False
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise FetchFailed(f"the answer is encoded as {name[:80]!r}, which nobody asked for")
        is_plain = name in {"", "identity"}
        self._inflating = None if is_plain else zlib.decompressobj(_WINDOW_BITS)

    async def read(self, chunks: AsyncIterator[bytes]) -> None:
        """Take chunks until there are no more, or no more fits."""
        async for chunk in chunks:
            self._take(chunk)
            if self.is_cut:
                return

    def _take(self, chunk: bytes) -> None:
        self._taken_bytes += len(chunk)
        if self._inflating is None:
            self._add(chunk)
            return
        try:
            # In small pieces: a few compressed kilobytes may stand for gigabytes.
            while chunk and not self.is_cut and not self._inflating.eof:
                self._add(self._inflating.decompress(chunk, _PIECE_BYTES))
                chunk = self._inflating.unconsumed_tail
        except zlib.error:
            raise FetchFailed("the answer's compression is broken") from None
        if self._taken_bytes > self._limit_bytes:
            self.is_cut = True

    def _add(self, data: bytes) -> None:
        room = self._limit_bytes - len(self.data)
        self.data += data[:room]
        if len(data) > room:
            self.is_cut = True
