"""Commands in the background that the model is to be told of: what is wanted, and what was seen.

Output is looked through line by line for plain texts. What matches is gathered until it may be
told, so that a command that talks without end is told of now and then, and not with every line.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from agent_service.records.requests import TurnRequest
from agent_service.records.sandbox import Stream

Fence = Callable[[str], str]
"""What stands around output, as the sandbox that it comes from asks for."""

MAX_LINES = 20
"""Of one notice."""
MAX_LINE_CHARS = 300
MAX_PARTIAL_BYTES = 16 * 1024
"""Of a line that has not ended; a longer one counts as ended."""
MAX_MATCH_NOTICES = 20
"""Of one command; then only its end is told."""
MAX_COMMAND_CHARS = 200


class WatchRequest(Struct, frozen=True):
    """What the model wants to be told of a command."""

    end: bool
    """That it has ended."""
    patterns: tuple[str, ...] = ()
    """Texts that a line of its output has in it."""


class WatchedCommand(Struct, frozen=True):
    """A command that is watched."""

    key: str
    sandbox_id: str
    """Where it runs; its session may have another sandbox by now."""
    command: str
    request: TurnRequest
    """The turns that tell of it, but for their ids and texts."""
    wanted: WatchRequest


class Progress(Struct, frozen=True):
    """How far a command was looked at, and told of."""

    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes of each stream that were looked through."""
    told: int = 0
    """Notices so far."""
    told_of_matches: int = 0
    is_over: bool = False
    """Nothing is left to be told but the notice that is being told."""


class CommandNews(Struct, frozen=True):
    """What is to be told, and how far the command was looked at then."""

    text: str
    """Empty where nothing is to be told."""
    progress: Progress


class Lines:
    """Gathers the lines of a command's output that match."""

    def __init__(self, patterns: Sequence[str], offsets: Mapping[str, int]) -> None:
        self._patterns = [pattern.encode() for pattern in patterns]
        self._read: dict[str, int] = {stream: offsets.get(stream, 0) for stream in Stream}
        self._partial: dict[str, bytes] = dict.fromkeys(Stream, b"")
        self.found: list[str] = []
        self.more = 0
        """Further lines that matched."""

    @property
    def offsets(self) -> dict[str, int]:
        """Up to where each stream's lines were looked through."""
        return {s.value: self._read[s] - len(self._partial[s]) for s in Stream}

    def reads_at(self, stream: Stream) -> int:
        """The next byte of a stream."""
        return self._read[stream]

    def add(self, stream: Stream, offset: int, data: bytes) -> None:
        """Take output; what lies between it and the last was dropped by who stored it."""
        partial = self._partial[stream] if offset == self._read[stream] else b""
        self._read[stream] = offset + len(data)
        block = partial + data
        end = block.rfind(b"\n") + 1
        if len(block) - end > MAX_PARTIAL_BYTES:
            end = len(block)
        self._partial[stream] = block[end:]
        self._look(block[:end])

    def end(self) -> None:
        """The command has ended, and so have its lines."""
        for stream in Stream:
            self._look(self._partial[stream])
            self._partial[stream] = b""

    def take(self) -> tuple[list[str], int]:
        """What was gathered since the last time, and how many more lines matched."""
        taken = self.found, self.more
        self.found, self.more = [], 0
        return taken

    def _look(self, block: bytes) -> None:
        # Most output has no match, and then its lines need not be told apart.
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


def said_of_matches(
    watched: WatchedCommand, lines: Sequence[str], more: int, told: int, fence: Fence
) -> str:
    """What the model is told of lines that match."""
    parts = [f"A command in the background wrote what you watch for: {_named(watched)}"]
    parts.append(_quoted(lines, fence))
    if more:
        parts.append(f"({more} more lines match.)")
    if told >= MAX_MATCH_NOTICES:
        parts.append("(That was the last notice of its lines: look at them with `process`.)")
    return _notice(parts)


def said_of_end(watched: WatchedCommand, how: str, tail: str, fence: Fence) -> str:
    """What the model is told of a command that has ended; `tail` is its newest output."""
    parts = [f"A command in the background has ended, {how}: {_named(watched)}"]
    lines = tail.splitlines()[-MAX_LINES:]
    if lines:
        parts.append("The end of its output:")
        parts.append(_quoted([line[:MAX_LINE_CHARS] for line in lines], fence))
    return _notice(parts)


def said_of_loss(watched: WatchedCommand) -> str:
    """What the model is told of a command of which nobody knows any more."""
    said = "A command in the background is gone with its sandbox, and how it ended is not known"
    return _notice([f"{said}: {_named(watched)}"])


def said_of_no_executor(watched: WatchedCommand) -> str:
    """What the model is told of a command whose executor does not answer any more."""
    said = "A command in the background is lost: its executor has not answered for a while"
    return _notice([f"{said}, and it is not looked at again: {_named(watched)}"])


def _named(watched: WatchedCommand) -> str:
    line = " ".join(watched.command.split())
    shown = line if len(line) <= MAX_COMMAND_CHARS else f"{line[:MAX_COMMAND_CHARS]}…"
    return f"session_id {watched.key}, `{shown}`."


def _quoted(lines: Sequence[str], fence: Fence) -> str:
    # It is output and nobody's order, wherever it stands in the conversation.
    return fence("\n".join(f"| {line}" for line in lines))


def _notice(parts: Sequence[str]) -> str:
    text = "\n".join(parts)
    return f"[Notice of Hermes, and not the user's words. {text}]"
