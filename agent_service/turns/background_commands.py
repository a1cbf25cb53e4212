"""Watches background commands for the model.

One replica watches each command, by a lease; while a turn of the session runs, the one that runs
it, because it has the sandbox. A report is stored with the progress that it covers before it is
sent, so that the next watcher continues with the same report.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from agent_service.clients.commands import SessionCommands
from agent_service.clients.leases import SandboxLeases, WatchedSandbox
from agent_service.records.background import (
    MAX_MATCH_NOTICES,
    CommandNews,
    Lines,
    Progress,
    WatchedCommand,
    render_end,
    render_loss,
    render_lost_executor,
    render_matches,
)
from agent_service.records.sandbox import (
    CommandStatus,
    CommandUncertain,
    CommandUnknown,
    Opening,
    OutputPage,
    SandboxUnavailable,
    Stream,
)
from agent_service.storage import background
from agent_service.storage.claims import Claimant
from agent_service.tools.guards.taint import fenced
from agent_service.tools.shell.terminal import describe_exit
from agent_service.turns.background_notifier import BackgroundNotifier
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced, Lease, LeaseKeeper
from services.errors import DatabaseUnavailable, NotFound
from services.lifecycle import Workers, unbroken
from services.redaction.redactor import Redactor

POLL_S = 1.0
"""The interval at which unwatched commands are looked for."""
CLAIMS_AT_ONCE = 32
RETRY_S = 3.0
"""The interval of retries if a command's executor cannot be reached."""

_log = logging.getLogger(__name__)
LOOK_S = 2.0
"""The interval at which a running command's output is searched."""
WAIT_S = 20.0
"""How long to wait at a time if only the end matters."""
PAUSE_S = 30.0
"""The pause between two reports of lines of a command."""
GRACE_S = 1.0
"""Time for the model to notice by itself that a command has ended."""
PAGE_BYTES = 128 * 1024
MAX_PAGES = 4
"""The limit for each stream at one look; output of faster commands is partly dropped."""
TAIL_BYTES = 4000


class CommandReader(Protocol):
    """Reads commands; both may raise SandboxUnavailable, CommandUncertain or CommandUnknown."""

    async def wait(self, key: str, most_s: float) -> CommandStatus:
        """Return a command's status once it has ended, or after `most_s`."""
        ...

    async def read(self, key: str, stream: Stream, offset: int, length: int) -> OutputPage: ...


class CommandMonitor:
    """Reads a command until there is something to report."""

    def __init__(
        self,
        commands: CommandReader,
        watched: WatchedCommand,
        offsets: Mapping[str, int],
        clock: Clock,
        opening: Callable[[], Opening | None],
    ) -> None:
        """`opening` is only called once output was read."""
        self._commands = commands
        self._watched = watched
        self._clock = clock
        self._opening = opening
        self._lines = Lines(watched.wanted.patterns, offsets)
        self._tell_from = 0.0

    async def next(self, progress: Progress) -> CommandNews:
        """Return the next report; SandboxUnavailable or CommandUncertain if it is unreachable."""
        try:
            while True:
                if (ended := await self._poll(progress)) is not None:
                    return await self._last(ended, progress)
                if self._may_tell(progress):
                    self._tell_from = self._clock.monotonic() + PAUSE_S
                    told = progress.told_of_matches + 1
                    text = render_matches(self._watched, *self._lines.take(), told, self._fence)
                    return CommandNews(text, self._noted(progress, told_of_matches=told))
        except CommandUnknown:
            return self._gone(progress, render_loss(self._watched))

    def given_up(self, progress: Progress) -> CommandNews:
        """Return the last report of a command whose executor has not returned."""
        return self._gone(progress, render_lost_executor(self._watched))

    def _gone(self, progress: Progress, said: str) -> CommandNews:
        text = "\n\n".join([*self._last_lines(progress), said])
        return CommandNews(text, self._noted(progress, is_over=True))

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

    async def _poll(self, progress: Progress) -> CommandStatus | None:
        """Wait a moment and read new output; return the command once it has ended."""
        key, listens = self._watched.key, self._listens(progress)
        status = await self._commands.wait(key, LOOK_S if listens else WAIT_S)
        if listens:
            for stream in Stream:
                await self._read(stream, 0 if status.exit is not None else MAX_PAGES)
        return status if status.exit is not None else None

    async def _read(self, stream: Stream, most_pages: int) -> None:
        pages = 0
        while not most_pages or pages < most_pages:
            at = self._lines.reads_at(stream)
            page = await self._commands.read(self._watched.key, stream, at, PAGE_BYTES)
            if page.data:
                self._lines.add(stream, page.offset, page.data)
            if not page.data or page.offset + len(page.data) >= page.total_bytes:
                return
            pages += 1

    async def _last(self, ended: CommandStatus, progress: Progress) -> CommandNews:
        assert ended.exit is not None, "it has ended"
        end: list[str] = []
        if self._watched.wanted.end:
            await self._clock.sleep(GRACE_S)
            how, tail = describe_exit(ended.exit) or "exit code 0", await self._tail()
            end = [render_end(self._watched, how, tail, self._fence)]
        # If its output could not be read, the lines wait for the next attempt.
        parts = [*self._last_lines(progress), *end]
        return CommandNews("\n\n".join(parts), self._noted(progress, is_over=True))

    def _last_lines(self, progress: Progress) -> list[str]:
        """Return the lines that were not reported yet, now that no more come."""
        if not self._listens(progress):
            return []
        self._lines.end()
        lines, more = self._lines.take()
        told = progress.told_of_matches + 1
        return [render_matches(self._watched, lines, more, told, self._fence)] if lines else []

    def _fence(self, quoted: str) -> str:
        opening = self._opening()
        return quoted if opening is None else fenced(quoted, opening)

    async def _tail(self) -> str:
        parts: list[str] = []
        for stream in Stream:
            page = await self._commands.read(self._watched.key, stream, -TAIL_BYTES, TAIL_BYTES)
            text = page.data.decode(errors="replace").replace("\0", "\ufffd")
            # Half a line at the cut is of no use.
            parts.append(text.partition("\n")[2] if page.offset and "\n" in text else text)
        return "\n".join(part.rstrip("\n") for part in parts if part.strip())


class _WorkedInElsewhere(Exception):
    """Another replica runs a turn of the session, and so has its sandbox."""


class BackgroundCommands:
    """Watches commands on this replica."""

    def __init__(
        self,
        database: Database,
        claimant: Claimant,
        sandboxes: SandboxLeases,
        notices: BackgroundNotifier,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._database = database
        self._leases = background.watch_leases(claimant.leases.ttl_s)
        self._owner = claimant.owner
        self._sandboxes = sandboxes
        self._notices = notices
        self._redactor = redactor
        self._clock = clock
        self._keeper = LeaseKeeper(database, self._leases, clock)
        self._watching: set[str] = set()

    async def recover(self) -> None:
        """Release the commands that this instance watched before a restart."""
        await self._database.write(lambda conn: self._leases.clear_earlier_boots(conn, self._owner))

    async def run(self) -> None:
        async with Workers() as workers, asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            while True:
                try:
                    await self._claim_all(workers)
                except DatabaseUnavailable as error:
                    _log.error("cannot look for watched commands: %s", error)
                await self._clock.sleep(POLL_S)

    async def _claim_all(self, workers: Workers) -> None:
        free = await self._database.read(
            lambda conn: background.free(conn, self._owner, CLAIMS_AT_ONCE)
        )
        for key in free:
            if key in self._watching:
                continue
            since = self._clock.monotonic()
            claim = partial(background.claim, leases=self._leases, key=key, owner=self._owner)
            if (claimed := await self._database.write(claim)) is not None:
                lease, watched, news = claimed
                self._watching.add(key)
                task = workers.start(f"watch of {key}", self._watch(lease, watched, news))
                self._keeper.hold(lease, since, task.cancel)

    async def _watch(self, lease: Lease, watched: WatchedCommand, news: CommandNews) -> None:
        try:
            await self._follow(lease, watched, news)
        except Fenced:
            _log.info("command %s is no longer watched", watched.key)
        except DatabaseUnavailable as error:
            _log.warning("command %s is no longer watched: %s", watched.key, error)
        except _WorkedInElsewhere:
            await self._database.write(lambda conn: self._leases.release(conn, lease))
        finally:
            self._keeper.drop(lease)
            self._watching.discard(watched.key)

    async def _follow(self, lease: Lease, watched: WatchedCommand, news: CommandNews) -> None:
        sandbox = WatchedSandbox(self._sandboxes, watched, self._owner)
        watch = CommandMonitor(
            SessionCommands(sandbox),
            watched,
            news.progress.offsets,
            self._clock,
            lambda: sandbox.place.opening,
        )
        while True:
            if news.text:
                try:
                    await self._notices.tell(watched, news)
                except NotFound:
                    return  # its session is gone
                await self._note(lease, CommandNews("", news.progress))
            if news.progress.is_over:
                break
            news = await self._news(watch, sandbox, watched, news.progress)
            news = replace(news, text=self._redactor.redact(news.text))
            if news.text:
                await self._note(lease, news)
        forget = partial(background.forget, leases=self._leases, lease=lease)
        await unbroken(self._database.write(forget))

    async def _note(self, lease: Lease, news: CommandNews) -> None:
        note = partial(background.note, leases=self._leases, lease=lease, news=news)
        await unbroken(self._database.write(note))

    async def _news(
        self,
        watch: CommandMonitor,
        sandbox: WatchedSandbox,
        watched: WatchedCommand,
        progress: Progress,
    ) -> CommandNews:
        while True:
            try:
                return await watch.next(progress)
            except (SandboxUnavailable, CommandUncertain) as error:
                _log.info("cannot read command %s: %s", watched.key, error)
            is_elsewhere = partial(
                background.is_worked_in, session_id=watched.request.session_id, owner=self._owner
            )
            if await self._database.read(is_elsewhere):
                raise _WorkedInElsewhere
            if sandbox.is_lost:
                return watch.given_up(progress)
            await self._clock.sleep(RETRY_S)
