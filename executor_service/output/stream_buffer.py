"""The end of one output stream that is not in a file yet."""


class StreamBuffer:
    """Bytes that arrive, are taken to be written, and are let go of once they are."""

    def __init__(self, end: int) -> None:
        self.written = end
        """Up to here it is in files, and from here on in memory."""
        self._taken = end
        self._bytes = bytearray()

    @property
    def end(self) -> int:
        """Up to here it has arrived."""
        return self.written + len(self._bytes)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take."""
        return self._taken < self.end

    def append(self, offset: int, data: memoryview) -> None:
        """Takes what arrives; ValueError for a gap before it while something is not written."""
        if offset != self.end:
            if self._bytes:
                raise ValueError(f"output at {offset} follows {self.end} bytes that still wait")
            self.written = self._taken = offset
        self._bytes += data

    def take(self) -> tuple[int, memoryview]:
        """Everything that waits, to be written, and where it begins."""
        start, self._taken = self._taken, self.end
        return start, memoryview(self.cut(start, self.end - start))

    def taken_is_written(self) -> int:
        """What was taken is in files; returns how much that is."""
        done = self._taken - self.written
        self.written = self._taken
        del self._bytes[:done]
        return done

    def cut(self, offset: int, limit: int) -> bytes:
        """Up to `limit` of the bytes in memory, from an offset on."""
        begin = offset - self.written
        return bytes(self._bytes[begin : begin + limit])
