"""Shortens long output to its head and tail; a result that is too long goes to a file."""

from collections.abc import Callable

from msgspec import Struct

from agent_service.records.sandbox import Files, PathRefused, SandboxUnavailable, Stream

LIMIT_BYTES = 50_000
HEAD_BYTES = LIMIT_BYTES * 40 // 100
TAIL_BYTES = LIMIT_BYTES - HEAD_BYTES

PROGRESS_PAUSE_S = 0.1
PROGRESS_BYTES = 4000


class OutputWindow:
    """Keeps the first and last bytes of both streams in order of arrival."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        self.total_bytes += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL_BYTES]

    def text(self, written_bytes: int = 0) -> str:
        """The output, with a note where something is left out.

        `written_bytes` may exceed what arrived: the store drops the middle of unread output.
        """
        written_bytes = max(self.total_bytes, written_bytes)
        left_out = written_bytes - len(self._head) - len(self._tail)
        if left_out <= 0:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[… {left_out:,} bytes left out …]\n{tail}"


class CommandOutput(OutputWindow):
    """An output window that also streams output to the user in readable pieces."""

    def __init__(self, show: Callable[[str], None], now: Callable[[], float]) -> None:
        super().__init__()
        self._show = show
        self._now = now
        self._waiting = bytearray()
        self._unshown_bytes = 0
        self._next_at = 0.0

    def __call__(self, stream: Stream, data: bytes) -> None:
        self.add(data)

    def add(self, data: bytes) -> None:
        super().add(data)
        self._unshown_bytes += len(data)
        self._waiting += data
        del self._waiting[:-PROGRESS_BYTES]
        if self._now() >= self._next_at:
            self._flush()

    def text(self, written_bytes: int = 0) -> str:
        self._flush()
        return super().text(written_bytes)

    def _flush(self) -> None:
        if self._waiting:
            left_out = self._unshown_bytes - len(self._waiting)
            note = f"[… {left_out:,} bytes are not shown …]\n" if left_out else ""
            self._show(note + self._waiting.decode(errors="replace"))
            self._waiting.clear()
            self._unshown_bytes = 0
            self._next_at = self._now() + PROGRESS_PAUSE_S


RESULT_CHARS = 100_000
"""A longer result goes to a file."""
TURN_CHARS = 200_000
"""A result that would take its turn's total above this also goes to a file."""
LEAN_TURN_CHARS = 8_000
"""The same for a model with little context."""
LATE_CHARS = 4_000
"""A result this short never goes to a file, so a file can be read to its end in parts."""
PREVIEW_CHARS = 1_500
KEPT_RESULTS = ".hermes/results"
FOLDER = f"/workspace/{KEPT_RESULTS}"


class ResultRoom(Struct):
    """Tracks how much space a turn's results may still take."""

    used_chars: int = 0
    turn_chars: int = TURN_CHARS

    async def fitted(self, text: str, key: str, files: Files | None, beside: str = "") -> str:
        """A result as the model sees it; `beside`, which is added to it, may take half of the room.

        `files` holds the full text, None if the model cannot read files. The file's name derives
        from the call's key, so a repeated call overwrites it.
        """
        room = self.turn_chars - self.used_chars
        most = min(RESULT_CHARS, room)
        if len(beside) > max(most // 2, LATE_CHARS):
            beside = await _shortened(beside, f"{key}-beside", files, most // 2)
        left = most - len(beside) - len("\n") if beside else most
        if len(text) > max(left, LATE_CHARS):
            text = await _shortened(text, key, files, left)
        text = "\n".join(filter(None, (text, beside)))
        self.used_chars += len(text)
        return text


async def _shortened(text: str, key: str, files: Files | None, room: int) -> str:
    if files is None:
        return _preview(text, room, "the rest is not kept, so ask for less at a time")
    path = f"{FOLDER}/{key.replace(':', '-')}.txt"
    try:
        await files.write(path, text.encode(errors="replace"))
    except (PathRefused, SandboxUnavailable) as error:
        return _preview(text, room, f"the rest could not be kept: {error}")
    how = "search it, or read it in parts"
    if room <= LATE_CHARS:
        how = (
            f"search it, or read it in parts of at most {LATE_CHARS:,} characters, because the "
            f"results of this turn have used up their {TURN_CHARS:,}"
        )
    return _preview(text, PREVIEW_CHARS, f"all of it is in {path}: {how}")


def _preview(text: str, room: int, where: str) -> str:
    room = max(room, PREVIEW_CHARS)
    return ends(
        text, room * 2 // 5, room * 3 // 5, f"of {len(text):,} characters left out; {where}"
    )


def ends(text: str, head: int, tail: int, note: str = "characters left out") -> str:
    """The first and last characters of a text; a note says how many are left out."""
    left_out = len(text) - head - tail
    if left_out <= 0:
        return text
    return f"{text[:head]}\n[… {left_out:,} {note} …]\n{text[len(text) - tail :]}"
