"""Watches commands in the background that the model wants to be told of.

Each is watched by one replica, by a lease; where a turn of its session runs, by the one that runs
it, since that has the sandbox. What is to be told is stored, together with how far the command was
looked at, before it is told: whoever watches next goes on with the same notice.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from agent_service.clients.commands import SessionCommands
from agent_service.clients.leases import SandboxLeases, WatchedSandbox
from agent_service.notices import Notices
from agent_service.sandbox import CommandUncertain, SandboxUnavailable
from agent_service.storage import watches
from agent_service.storage.claims import Claimant
from agent_service.storage.watches import Watched
from agent_service.watch import News, Watch
from agent_service.watched import Progress
from services.clock import Clock
from services.database import Database
from services.errors import DatabaseUnavailable, NotFound
from services.leases import Fenced, Lease, LeaseKeeper
from services.lifecycle import Workers, unbroken
from services.redact import Redactor

POLL_S = 1.0
"""How often commands are looked for that nobody watches."""
CLAIMS_AT_ONCE = 32
RETRY_S = 3.0
"""How often a command is looked at again whose executor cannot be reached."""

_log = logging.getLogger(__name__)


class _WorkedInElsewhere(Exception):
    """Another replica runs a turn of the session, and has its sandbox."""


class Watches:
    """The commands that this replica watches."""

    def __init__(
        self,
        database: Database,
        claimant: Claimant,
        sandboxes: SandboxLeases,
        notices: Notices,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._database = database
        self._leases = watches.watch_leases(claimant.leases.ttl_s)
        self._owner = claimant.owner
        self._sandboxes = sandboxes
        self._notices = notices
        self._redactor = redactor
        self._clock = clock
        self._keeper = LeaseKeeper(database, self._leases, clock)
        self._watching: set[str] = set()

    async def recover(self) -> None:
        """Make the commands free that this instance watched before it was started anew."""
        await self._database.write(lambda conn: self._leases.clear_earlier_boots(conn, self._owner))

    async def run(self) -> None:
        """Watch what nobody watches, until cancelled."""
        async with Workers() as workers, asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run())
            while True:
                try:
                    await self._claim_all(workers)
                except DatabaseUnavailable as error:
                    _log.error("watched commands cannot be looked for: %s", error)
                await self._clock.sleep(POLL_S)

    async def _claim_all(self, workers: Workers) -> None:
        free = await self._database.read(
            lambda conn: watches.free(conn, self._owner, CLAIMS_AT_ONCE)
        )
        for key in free:
            if key in self._watching:
                continue
            since = self._clock.monotonic()
            claim = partial(watches.claim, leases=self._leases, key=key, owner=self._owner)
            if (claimed := await self._database.write(claim)) is not None:
                lease, watched = claimed
                self._watching.add(key)
                task = workers.start(f"watch of {key}", self._watch(lease, watched))
                self._keeper.hold(lease, since, task.cancel)

    async def _watch(self, lease: Lease, watched: Watched) -> None:
        try:
            await self._follow(lease, watched)
        except Fenced:
            _log.info("command %s is watched no more", watched.key)
        except DatabaseUnavailable as error:
            _log.warning("command %s is watched no more: %s", watched.key, error)
        except _WorkedInElsewhere:
            await self._database.write(lambda conn: self._leases.release(conn, lease))
        finally:
            self._keeper.drop(lease)
            self._watching.discard(watched.key)

    async def _follow(self, lease: Lease, watched: Watched) -> None:
        """Look at a command and tell of it, until nothing is left to be told."""
        sandbox = WatchedSandbox(self._sandboxes, watched, self._owner)
        commands = SessionCommands(sandbox)
        watch = Watch(commands, watched, self._clock, lambda: sandbox.place.opening)
        progress, notice = watched.progress, watched.notice
        while True:
            if notice:
                try:
                    await self._notices.tell(watched, progress.told, notice)
                except NotFound:
                    return  # its session is gone
                await self._store(partial(watches.told, leases=self._leases, lease=lease))
            if progress.is_over:
                break
            news = await self._news(watch, sandbox, watched, progress)
            progress, notice = news.progress, self._redactor.redact(news.text)
            if notice:
                await self._store(
                    partial(
                        watches.note,
                        leases=self._leases,
                        lease=lease,
                        progress=progress,
                        notice=notice,
                    )
                )
        await self._store(partial(watches.forget, leases=self._leases, lease=lease))

    async def _news(
        self, watch: Watch, sandbox: WatchedSandbox, watched: Watched, progress: Progress
    ) -> News:
        """The next news of a command, also where its executor is away for a while."""
        while True:
            try:
                return await watch.next(progress)
            except (SandboxUnavailable, CommandUncertain) as error:
                _log.info("command %s cannot be looked at: %s", watched.key, error)
            is_elsewhere = partial(
                watches.is_worked_in, session_id=watched.session_id, owner=self._owner
            )
            if await self._database.read(is_elsewhere):
                raise _WorkedInElsewhere
            if sandbox.is_lost:
                return watch.given_up(progress)
            await self._clock.sleep(RETRY_S)

    async def _store(self, write: Callable[[Connection], None]) -> None:
        await unbroken(self._database.write(write))
