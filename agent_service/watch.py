"""One command in the background that the model is to be told of."""

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent_service.sandbox import CommandStatus, CommandUnknown, Opening, OutputPage, Stream
from agent_service.storage.watches import Watched
from agent_service.tools.taint import fenced
from agent_service.tools.terminal import describe_exit
from agent_service.watched import (
    MAX_MATCH_NOTICES,
    Lines,
    Progress,
    said_of_end,
    said_of_loss,
    said_of_matches,
    said_of_no_executor,
)
from services.clock import Clock

LOOK_S = 2.0
"""How often output is looked through while a command runs."""
WAIT_S = 20.0
"""How long its end is waited for at a time where only that is wanted."""
PAUSE_S = 30.0
"""Between two notices of lines of one command."""
GRACE_S = 1.0
"""For the model to see by itself that a command has ended."""
PAGE_BYTES = 128 * 1024
MAX_PAGES = 4
"""Of each stream at one look; of a command that goes on writing faster some output is dropped."""
TAIL_BYTES = 4000

_log = logging.getLogger(__name__)


class Looking(Protocol):
    """Looks at commands; SandboxUnavailable, CommandUncertain or CommandUnknown from both."""

    async def wait(self, key: str, most_s: float) -> CommandStatus:
        """How a command stands once it has ended, or so many seconds are over."""
        ...

    async def read(self, key: str, stream: Stream, offset: int, length: int) -> OutputPage:
        """Stored output from `offset` on; a negative offset counts from the end."""
        ...


class News(Struct, frozen=True):
    """What is to be told, and how far the command was looked at then."""

    text: str
    """Empty where the command ends with nothing to be told."""
    progress: Progress


class Watch:
    """Looks at a command until there is something to be told."""

    def __init__(
        self,
        commands: Looking,
        watched: Watched,
        clock: Clock,
        opening: Callable[[], Opening | None],
    ) -> None:
        """Ask for the opening of its sandbox once something of it was read."""
        self._commands = commands
        self._watched = watched
        self._clock = clock
        self._opening = opening
        self._lines = Lines(watched.wanted.patterns, watched.progress.offsets)
        self._tell_from = 0.0

    async def next(self, progress: Progress) -> News:
        """The next news; SandboxUnavailable or CommandUncertain where nobody can be asked."""
        key, command = self._watched.key, self._watched.command
        try:
            while True:
                if (ended := await self._ended(progress)) is not None:
                    return await self._last(ended, progress)
                if self._may_tell(progress):
                    self._tell_from = self._clock.monotonic() + PAUSE_S
                    told = progress.told_of_matches + 1
                    text = said_of_matches(key, command, *self._lines.take(), told, self._fence)
                    return News(text, self._noted(progress, told_of_matches=told))
        except CommandUnknown:
            return self._gone(progress, said_of_loss(key, command))

    def given_up(self, progress: Progress) -> News:
        """The last news of a command whose executor does not come back."""
        return self._gone(progress, said_of_no_executor(self._watched.key, self._watched.command))

    def _gone(self, progress: Progress, said: str) -> News:
        text = "\n\n".join([*self._last_lines(progress), said])
        return News(text, self._noted(progress, is_over=True))

    def _may_tell(self, progress: Progress) -> bool:
        is_due = self._clock.monotonic() >= self._tell_from
        return bool(self._lines.found) and is_due and self._listens(progress)

    def _listens(self, progress: Progress) -> bool:
        wanted = self._watched.wanted
        return bool(wanted.patterns) and progress.told_of_matches < MAX_MATCH_NOTICES

    def _noted(
        self, progress: Progress, *, told_of_matches: int = 0, is_over: bool = False
    ) -> Progress:
        return replace(
            progress,
            offsets=self._lines.offsets,
            told=progress.told + 1,
            told_of_matches=told_of_matches or progress.told_of_matches,
            is_over=is_over,
        )

    async def _ended(self, progress: Progress) -> CommandStatus | None:
        """Wait a moment, and read what came; the command once it has ended."""
        key, listens = self._watched.key, self._listens(progress)
        status = await self._commands.wait(key, LOOK_S if listens else WAIT_S)
        if listens:
            for stream in Stream:
                await self._read(stream, 0 if status.exit is not None else MAX_PAGES)
        return status if status.exit is not None else None

    async def _read(self, stream: Stream, most_pages: int) -> None:
        """Look through what a stream has to its end, or so many pages where any number is given."""
        pages = 0
        while not most_pages or pages < most_pages:
            at = self._lines.reads_at(stream)
            page = await self._commands.read(self._watched.key, stream, at, PAGE_BYTES)
            if page.data:
                self._lines.add(stream, page.offset, page.data)
            if not page.data or page.offset + len(page.data) >= page.total_bytes:
                return
            pages += 1

    async def _last(self, ended: CommandStatus, progress: Progress) -> News:
        """The news of a command that has ended: its last lines that match, and how it ended."""
        assert ended.exit is not None, "it has ended"
        end: list[str] = []
        if self._watched.wanted.end:
            await self._clock.sleep(GRACE_S)
            how, tail = describe_exit(ended.exit) or "exit code 0", await self._tail()
            end = [said_of_end(self._watched.key, self._watched.command, how, tail, self._fence)]
        # Where its output could not be read, the lines wait for the next try.
        said = [*self._last_lines(progress), *end]
        return News("\n\n".join(said), self._noted(progress, is_over=True))

    def _last_lines(self, progress: Progress) -> list[str]:
        """The notice of the lines that were not told yet, if any, now that no more come."""
        if not self._listens(progress):
            return []
        self._lines.end()
        lines, more = self._lines.take()
        told, key, command = progress.told_of_matches + 1, self._watched.key, self._watched.command
        return [said_of_matches(key, command, lines, more, told, self._fence)] if lines else []

    def _fence(self, quoted: str) -> str:
        """Output between marks, where others can have put something into its sandbox."""
        opening = self._opening()
        # What the marks mean was said with the result of the call that began it, at the latest.
        return quoted if opening is None else fenced(quoted, opening, explained=False)

    async def _tail(self) -> str:
        """The newest output, of either stream."""
        parts: list[str] = []
        for stream in Stream:
            page = await self._commands.read(self._watched.key, stream, -TAIL_BYTES, TAIL_BYTES)
            text = page.data.decode(errors="replace").replace("\0", "\ufffd")
            # Where it was cut, half a line is of no use.
            parts.append(text.partition("\n")[2] if page.offset and "\n" in text else text)
        return "\n".join(part.rstrip("\n") for part in parts if part.strip())
