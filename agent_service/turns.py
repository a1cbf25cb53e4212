"""The turns of this replica: started or taken over, driven, watched, interrupted, let go."""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from agent_service.events import Decision
from agent_service.hub import TurnStream
from agent_service.live_turn import LiveTurn
from agent_service.metrics import AgentMetrics
from agent_service.models.configured import ConfiguredModel
from agent_service.requests import TurnInfo, TurnRequest
from agent_service.runner import Driving, Runner, Stop
from agent_service.storage import approvals, claims, journal, turns
from agent_service.storage.approvals import ApprovalInfo
from agent_service.storage.claims import Claimed
from agent_service.storage.turns import Owner, SessionDraft, Started
from agent_service.watching import Watching
from services.clock import Clock
from services.database import Database
from services.errors import DatabaseUnavailable, Draining, FailedPrecondition
from services.lifecycle import Workers
from services.logs import bind

_log = logging.getLogger(__name__)

POLL_S = 1.0
"""How often unowned turns and expired approvals are looked for when nothing hints at them."""

CLAIMS_AT_ONCE = 32

RENEW_AT = 1 / 3
GIVE_UP_AT = 0.8
"""Parts of the lease after which it is renewed, and after which it counts as lost."""

HOT_SESSIONS = 256

_T = TypeVar("_T")


class Conversations:
    """The conversations used last, so that a hot session is not read again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[int, journal.Conversation]] = OrderedDict()

    def get(self, session_id: str) -> tuple[int, journal.Conversation] | None:
        """How many messages the session had, and the conversation with its system prompt."""
        return self._kept.get(session_id)

    def keep(self, turn: LiveTurn) -> None:
        """Remember a session after a turn of it."""
        self._kept[turn.session_id] = (turn.message_count, turn.messages)
        self._kept.move_to_end(turn.session_id)
        if len(self._kept) > HOT_SESSIONS:
            self._kept.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Ownership:
    """As whom this replica owns turns, and what they use where they name nothing."""

    owner: Owner
    defaults: journal.Defaults


class Turns:
    """Owns the turns of this replica."""

    def __init__(
        self,
        database: Database,
        runner: Runner,
        model: ConfiguredModel,
        ownership: Ownership,
        clock: Clock,
        workers: Workers,
        metrics: AgentMetrics,
    ) -> None:
        self._database = database
        self._runner = runner
        self._model = model
        self._owner = ownership.owner
        self._defaults = ownership.defaults
        self._clock = clock
        self._workers = workers
        self._metrics = metrics
        self._driven: dict[str, Driving] = {}
        self._conversations = Conversations()
        self._wake = asyncio.Event()
        self._draining = False
        self._queued: Counter[str] = Counter()
        self.watching = Watching(database, self._stream_of, clock)

    async def start(self, request: TurnRequest, draft: SessionDraft) -> TurnInfo:
        """Store a turn and begin it, or queue it behind the session's live turn."""
        if self._draining:
            raise Draining("the agent is shutting down; try again in a moment")
        model = await self._model.default_name()
        hot, now = self._conversations.get(request.session_id), self._clock.now()

        def store(conn: Connection) -> tuple[Started, journal.Loaded | None]:
            started = turns.start(conn, request, model, draft, self._owner, now)
            if not started.began:
                return started, None
            return started, journal.load(conn, request.turn_id, self._defaults, hot)

        started, loaded = await self._write_once_more_on_conflict(store)
        if loaded is not None:
            self._drive(loaded)
        elif started.is_new:
            self._queued[request.session_id] += 1
        if started.interrupts:
            self._stop(started.interrupts)
        return started.turn

    async def get(self, turn_id: str, profile: str) -> TurnInfo:
        """The turn as it is."""
        return await self._database.read(lambda conn: turns.get(conn, turn_id, profile))

    async def interrupt(self, turn_id: str, session_id: str, profile: str) -> TurnInfo | None:
        """Ask a turn, or a session's live turn, to stop; None when the session has none."""
        now = self._clock.now()

        def store(conn: Connection) -> TurnInfo | None:
            if turn_id:
                return turns.request_cancel(conn, turn_id, profile, now)
            live = turns.live_turn_of(conn, session_id, profile)
            return None if live is None else turns.request_cancel(conn, live.id, profile, now)

        info = await self._database.write(store)
        if info is not None:
            self._stop(info.id)
        return info

    async def resolve(
        self, approval_id: str, profile: str, decision: Decision, decided_by: str
    ) -> ApprovalInfo:
        """Take a person's decision; the turn goes on once nothing else is undecided."""
        now = self._clock.now()
        resolved = await self._database.write(
            lambda conn: approvals.resolve(conn, approval_id, profile, decision, decided_by, now)
        )
        self._wake.set()
        return resolved.approval

    async def run(self) -> None:
        """Take over what has no owner, for as long as the service runs."""
        while not self._draining:
            try:
                await self._expire_approvals()
                await self._claim_all()
                await self._stop_cancelled()
            except DatabaseUnavailable as error:
                _log.error("turns cannot be looked for: %s", error)
            await self._wait()

    async def drain(self) -> None:
        """Claim nothing more, and let every turn go for another replica or the next start."""
        self._draining = True
        self._wake.set()
        self._let_go_of_all()
        tasks = [driving.task for driving in self._driven.values() if driving.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def recover(self) -> None:
        """Make the turns free that this instance drove before it was started anew."""
        freed = await self._database.write(
            lambda conn: claims.expire_earlier_boots(conn, self._owner)
        )
        if freed:
            _log.info("taking up %d turns of the last run", freed)

    async def keep_leases(self) -> None:
        """Renew the leases of the driven turns; let them all go when that fails for too long."""
        lease_s = self._owner.lease.total_seconds()
        renewed_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(lease_s * RENEW_AT)
            try:
                if self._driven:
                    await self._database.write(lambda conn: claims.renew(conn, self._owner))
            except DatabaseUnavailable as error:
                _log.error("leases cannot be renewed: %s", error)
            else:
                renewed_at = self._clock.monotonic()
            if self._clock.monotonic() - renewed_at > lease_s * GIVE_UP_AT:
                self._let_go_of_all()

    def _let_go_of_all(self) -> None:
        for driving in list(self._driven.values()):
            driving.stop(Stop.DETACH)

    def _drive(
        self, loaded: journal.Loaded, *, is_stuck: bool = False, stopped: Stop | None = None
    ) -> None:
        turn = loaded.turn
        driving = Driving(turn, TurnStream(loaded.recorded, turn.epoch), stopped=stopped)
        self._driven[turn.id] = driving
        self._metrics.active.inc()
        driving.task = self._workers.start(
            f"turn {turn.id}", self._driven_to_end(driving, is_stuck=is_stuck)
        )

    async def _driven_to_end(self, driving: Driving, *, is_stuck: bool) -> None:
        turn = driving.turn
        try:
            with bind(turn_id=turn.id, session_id=turn.session_id):
                await self._runner.drive(driving, is_stuck=is_stuck)
        finally:
            del self._driven[turn.id]
            self._metrics.active.dec()
            driving.stream.close()
            if turn.finished is not None:
                self._conversations.keep(turn)
            if self._queued[turn.session_id]:
                self._wake.set()

    def _stream_of(self, turn_id: str) -> TurnStream | None:
        driving = self._driven.get(turn_id)
        return None if driving is None else driving.stream

    def _stop(self, turn_id: str) -> None:
        if turn_id in self._driven:
            self._driven[turn_id].stop(Stop.INTERRUPT)
        else:
            self._wake.set()

    async def _claim_all(self) -> None:
        found = await self._database.read(lambda conn: claims.claimable(conn, CLAIMS_AT_ONCE))
        for turn_id in found:
            if turn_id not in self._driven and not self._draining:
                await self._claim(turn_id)

    async def _claim(self, turn_id: str) -> None:
        now = self._clock.now()

        def store(conn: Connection) -> tuple[Claimed, journal.Loaded] | None:
            claimed = claims.claim(conn, turn_id, self._owner, now)
            if claimed is None:
                return None
            return claimed, journal.load(conn, turn_id, self._defaults, None)

        taken = await self._write_once_more_on_conflict(store)
        if taken is not None:
            claimed, loaded = taken
            self._metrics.resumes.inc(not claimed.began)
            if claimed.began:
                self._queued -= Counter([loaded.turn.session_id])
            stopped = Stop.INTERRUPT if claimed.cancel_requested else None
            self._drive(loaded, is_stuck=claimed.is_stuck, stopped=stopped)

    async def _stop_cancelled(self) -> None:
        """Stop turns of ours that another replica was asked to stop."""
        if self._driven:
            mine = self._owner.name
            for turn_id in await self._database.read(lambda conn: claims.cancelled(conn, mine)):
                self._stop(turn_id)

    async def _expire_approvals(self) -> None:
        now = self._clock.now()
        for late in await self._database.read(lambda conn: approvals.expired(conn, now)):
            await self._database.write(partial(_expire, late.id, now))

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _write_once_more_on_conflict(self, store: Callable[[Connection], _T]) -> _T:
        # Two replicas began a turn of the same session: the unique index let one of them through,
        # and the other one finds it on a second look.
        try:
            return await self._database.write(store)
        except IntegrityError:
            return await self._database.write(store)


def _expire(approval_id: str, now: datetime, conn: Connection) -> None:
    try:
        approvals.resolve(conn, approval_id, None, Decision.EXPIRED, "", now)
    except FailedPrecondition:
        # Somebody decided at the last moment.
        return
