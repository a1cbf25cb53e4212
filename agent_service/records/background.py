"""Background commands that the model watches: what it wants to know, and what was seen.

Output is searched line by line for plain texts. Matches are gathered between notices, so a command
that prints endlessly is reported now and then, not with every line.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from agent_service.records.requests import TurnRequest
from agent_service.records.sandbox import Stream

Fence = Callable[[str], str]
"""Wraps output as the sandbox that it comes from requires."""

MAX_LINES = 20
MAX_LINE_CHARS = 300
MAX_PARTIAL_BYTES = 16 * 1024
"""A line that has not ended counts as ended beyond this length."""
MAX_MATCH_NOTICES = 20
"""The limit for one command; after that only its end is reported."""
MAX_COMMAND_CHARS = 200


class WatchRequest(Struct, frozen=True):
    """What the model wants to be told about a command."""

    end: bool
    patterns: tuple[str, ...] = ()
    """Report output lines that contain any of these texts."""


class WatchedCommand(Struct, frozen=True):
    """A command that is watched."""

    key: str
    sandbox_id: str
    """The sandbox that it runs in; its session may have another one by now."""
    command: str
    request: TurnRequest
    """The template for the turns that report on it; without ids and texts."""
    wanted: WatchRequest


class Progress(Struct, frozen=True):
    """How far a command's output was searched and reported."""

    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes searched, by stream."""
    told: int = 0
    told_of_matches: int = 0
    is_over: bool = False
    """Nothing is left to report after the current notice."""


class CommandNews(Struct, frozen=True):
    """A report, and the progress that it covers."""

    text: str
    """Empty if there is nothing to report."""
    progress: Progress


class Lines:
    """Gathers matching lines of a command's output."""

    def __init__(self, patterns: Sequence[str], offsets: Mapping[str, int]) -> None:
        self._patterns = [pattern.encode() for pattern in patterns]
        self._read: dict[str, int] = {stream: offsets.get(stream, 0) for stream in Stream}
        self._partial: dict[str, bytes] = dict.fromkeys(Stream, b"")
        self.found: list[str] = []
        self.more = 0

    @property
    def offsets(self) -> dict[str, int]:
        return {s.value: self._read[s] - len(self._partial[s]) for s in Stream}

    def reads_at(self, stream: Stream) -> int:
        return self._read[stream]

    def add(self, stream: Stream, offset: int, data: bytes) -> None:
        """Add output; a gap before it was dropped by the executor."""
        partial = self._partial[stream] if offset == self._read[stream] else b""
        self._read[stream] = offset + len(data)
        block = partial + data
        end = block.rfind(b"\n") + 1
        if len(block) - end > MAX_PARTIAL_BYTES:
            end = len(block)
        self._partial[stream] = block[end:]
        self._look(block[:end])

    def end(self) -> None:
        for stream in Stream:
            self._look(self._partial[stream])
            self._partial[stream] = b""

    def take(self) -> tuple[list[str], int]:
        """Return the matches since the last call, and how many more lines matched."""
        taken = self.found, self.more
        self.found, self.more = [], 0
        return taken

    def _look(self, block: bytes) -> None:
        # Most output has no match and need not be split into lines.
        if not self._matches(block):
            return
        for line in filter(self._matches, block.splitlines()):
            if len(self.found) == MAX_LINES:
                self.more += 1
            else:
                text = line.decode(errors="replace").replace("\0", "\ufffd")
                self.found.append(text[:MAX_LINE_CHARS])

    def _matches(self, data: bytes) -> bool:
        return any(pattern in data for pattern in self._patterns)


def render_matches(
    watched: WatchedCommand, lines: Sequence[str], more: int, told: int, fence: Fence
) -> str:
    """Render the notice of matching lines."""
    parts = [f"A command in the background wrote what you watch for: {_describe(watched)}"]
    parts.append(_quoted(lines, fence))
    if more:
        parts.append(f"({more} more lines match.)")
    if told >= MAX_MATCH_NOTICES:
        parts.append("(That was the last notice of its lines: look at them with `process`.)")
    return _notice(parts)


def render_end(watched: WatchedCommand, how: str, tail: str, fence: Fence) -> str:
    """Render the notice of a command's end; `tail` is its newest output."""
    parts = [f"A command in the background has ended, {how}: {_describe(watched)}"]
    lines = tail.splitlines()[-MAX_LINES:]
    if lines:
        parts.append("The end of its output:")
        parts.append(_quoted([line[:MAX_LINE_CHARS] for line in lines], fence))
    return _notice(parts)


def render_loss(watched: WatchedCommand) -> str:
    """Render the notice that a command was lost."""
    text = "A command in the background is gone with its sandbox, and how it ended is not known"
    return _notice([f"{text}: {_describe(watched)}"])


def render_lost_executor(watched: WatchedCommand) -> str:
    """Render the notice that a command's executor does not answer any more."""
    text = "A command in the background is lost: its executor has not answered for a while"
    return _notice([f"{text}, and it is not looked at again: {_describe(watched)}"])


def _describe(watched: WatchedCommand) -> str:
    line = " ".join(watched.command.split())
    shown = line if len(line) <= MAX_COMMAND_CHARS else f"{line[:MAX_COMMAND_CHARS]}…"
    return f"session_id {watched.key}, `{shown}`."


def _quoted(lines: Sequence[str], fence: Fence) -> str:
    # Fenced, because output is never an order, wherever it stands in the conversation.
    return fence("\n".join(f"| {line}" for line in lines))


def _notice(parts: Sequence[str]) -> str:
    text = "\n".join(parts)
    return f"[Notice of Hermes, and not the user's words. {text}]"
