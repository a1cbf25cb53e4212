"""Server-sent events, as far as model APIs use them: the data of each event."""

MAX_EVENT_BYTES = 4 * 1024 * 1024


class EventTooLarge(Exception):
    """The server sent an event that is larger than any real answer."""


class SSEDecoder:
    """Turns chunks of bytes, cut anywhere, into the data of whole events."""

    __slots__ = ("_data", "_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events: list[bytes] = []
        for line in lines:
            self._line(line.removesuffix(b"\r"), events)
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return events

    def flush(self) -> list[bytes]:
        """Return the data of an event that the server left without its blank line."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(data)
            self._size += len(data)
        elif not line and self._data:
            events.append(b"\n".join(self._data))
            self._data = []
            self._size = 0
