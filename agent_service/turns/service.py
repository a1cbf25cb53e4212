"""The turns of this replica: started or taken over, driven, watched, interrupted, released."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from agent_service.clients.replicas import Replicas
from agent_service.records.events import Decision
from agent_service.records.requests import (
    NOTICE,
    REVIEW,
    BusyMode,
    TurnInfo,
    TurnOptions,
    TurnRequest,
)
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import approvals, claims, journal, sessions, steering, turns
from agent_service.storage.approvals import Answer, ApprovalInfo
from agent_service.storage.claims import Claimant, ClaimedTurn
from agent_service.storage.turns import SessionDraft, StartResult
from agent_service.tools.spans import turn_span
from agent_service.turns.event_streams import EventFeed, TurnStream
from agent_service.turns.metrics import AgentMetrics
from agent_service.turns.runner import RunningTurn, Stop, TurnRunner
from agent_service.turns.session_drafts import SessionDrafts
from services.clock import Clock
from services.database import Database
from services.database.hints import Hint
from services.database.leases import LeaseKeeper
from services.database.queue import poll
from services.errors import DatabaseUnavailable, Draining
from services.lifecycle import Workers, unbroken
from services.telemetry.logs import bind
from services.telemetry.tracing import traceparent

_log = logging.getLogger(__name__)

POLL_S = 1.0
"""The interval at which unowned turns and expired approvals are looked for."""

CLAIMS_AT_ONCE = 32

REVIEWS_AT_ONCE = 2
"""The limit of parallel reviews here: nobody waits for them, unlike for other turns."""

HOT_SESSIONS = 256
HOT_BYTES = HOT_SESSIONS * 1_000_000
"""The limit for all of them together."""

_T = TypeVar("_T")


class Conversations:
    """The last turns of recently used sessions, so that active sessions are not read again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, LiveTurn] = OrderedDict()
        self._bytes = 0

    def get(self, session_id: str) -> LiveTurn | None:
        """Return the session's last turn here, as it was at its end."""
        return self._kept.get(session_id)

    def keep(self, turn: LiveTurn) -> None:
        before = self._kept.pop(turn.session_id, None)
        self._kept[turn.session_id] = turn
        self._bytes += _size_bytes(turn) - (_size_bytes(before) if before else 0)
        while len(self._kept) > HOT_SESSIONS or self._bytes > HOT_BYTES:
            self._bytes -= _size_bytes(self._kept.popitem(last=False)[1])


def _size_bytes(turn: LiveTurn) -> int:
    return sum(map(len, turn.messages))


class Ownership(Struct, frozen=True):
    """This replica's identity and defaults as an owner of turns, and its peers."""

    claimant: Claimant
    replicas: Replicas
    options: TurnOptions
    limits: journal.TurnLimits


class Turns:
    """The turns of this replica."""

    def __init__(
        self,
        database: Database,
        runner: TurnRunner,
        drafts: SessionDrafts,
        ownership: Ownership,
        clock: Clock,
        workers: Workers,
        metrics: AgentMetrics,
    ) -> None:
        self._database = database
        self._runner = runner
        self._drafts = drafts
        self._claimant = ownership.claimant
        self._options, self._limits = ownership.options, ownership.limits
        self.replicas = ownership.replicas
        self._clock = clock
        self._workers = workers
        self._metrics = metrics
        self._keeper = LeaseKeeper(database, ownership.claimant.leases, clock)
        self._driven: dict[str, RunningTurn] = {}
        self._conversations = Conversations()
        self._wake, self._draining = Hint(), False
        self._queued: set[str] = set()
        self.watching = EventFeed(database, self._stream_of, self.replicas.owner_of, clock)

    async def start(self, request: TurnRequest) -> TurnInfo:
        """Store a turn, and its session if new, and begin or queue it.

        NotFound for a notice of a session that is gone.
        """
        if self._draining:
            raise Draining("the agent is shutting down; try again in a moment")
        request = replace(request, traceparent=traceparent())
        model = "" if request.is_script_only else await self._drafts.default_model()
        defaults, session_id = replace(self._options, model=model), request.session_id
        draft = None
        if not await self._database.read(lambda conn: sessions.has_begun(conn, session_id)):
            draft = None if request.kind == NOTICE else await self._drafts.draft(request)
        # If the caller goes away, a stored turn must still be driven.
        info = await unbroken(self._start(request, defaults, draft))
        if draft is not None:
            await self._drafts.begun(request, draft)
        return info

    async def _start(
        self, request: TurnRequest, defaults: TurnOptions, draft: SessionDraft | None
    ) -> TurnInfo:
        last, now = self._conversations.get(request.session_id), self._clock.now()

        def store(conn: Connection) -> tuple[StartResult, journal.LoadedTurn | None]:
            stored = turns.store(conn, request, defaults, draft, now)
            if not stored.is_new or stored.waits:
                return stored, None
            return stored, self._take(conn, request.turn_id, last, now)

        since = self._clock.monotonic()
        stored, taken = await _write_once_more_on_conflict(self._database, store)
        if taken is not None:
            await self._drive(taken, since)
            return replace(stored.turn, state="RUNNING")
        if stored.is_new:
            self._queued.add(request.session_id)
            if stored.live_turn and request.busy_mode is BusyMode.INTERRUPT:
                self._stop(stored.live_turn, request.profile)
            else:
                self._wake.give()
        return stored.turn

    async def get(self, turn_id: str, profile: str) -> TurnInfo:
        return await self._database.read(lambda conn: turns.get(conn, turn_id, profile))

    async def interrupt(self, turn_id: str, session_id: str, profile: str) -> TurnInfo | None:
        """Stop a turn, or a session's live turn; None if the session has none."""
        now = self._clock.now()

        def store(conn: Connection) -> TurnInfo | None:
            live = None if turn_id else turns.live_turn_of(conn, session_id, profile)
            if not turn_id and live is None:
                return None
            info = turns.request_cancel(conn, live.id if live else turn_id, profile, now)
            if not info.is_finished:
                steering.drop(conn, info.session_id, now)
            return info

        info = await self._database.write(store)
        if info is not None:
            self._stop(info.id, profile)
        return info

    async def resolve(
        self, approval_id: str, profile: str, decision: Decision, decided_by: str
    ) -> ApprovalInfo:
        now = self._clock.now()
        info, is_new = await self._database.write(
            lambda conn: approvals.resolve(conn, approval_id, profile, decision, decided_by, now)
        )
        self._wake.give()
        if is_new:
            self._metrics.decided(info, decision, now)
            _log_decision(info)
        return info

    async def answer(self, given: Answer) -> ApprovalInfo:
        now = self._clock.now()
        answered = await self._database.write(lambda conn: approvals.answer(conn, given, now))
        self._wake.give()
        return answered

    async def run(self) -> None:
        """Take over turns without an owner, until cancelled or drained."""
        with suppress(Draining):
            await poll("the taking over of turns", self._look, self._wake, retry_s=POLL_S)

    async def _look(self) -> float:
        if self._draining:
            raise Draining("the agent is shutting down")
        await _expire_approvals(self._database, self._metrics, self._clock.now())
        await self._claim_all()
        await self._stop_cancelled()
        return POLL_S

    async def drain(self) -> None:
        """Claim no more turns, and release all for another replica or the next start."""
        self._draining = True
        self._wake.give()
        self._let_go_of_all()
        tasks = [driving.task for driving in self._driven.values() if driving.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def recover(self) -> None:
        """Release the turns that this instance owned before a restart."""
        freed = await self._database.write(
            lambda conn: self._claimant.leases.clear_earlier_boots(conn, self._claimant.owner)
        )
        if freed:
            _log.info("taking up %d turns of the last run", freed)

    async def keep_leases(self) -> None:
        await self._keeper.run()

    def _let_go_of_all(self) -> None:
        for driving in list(self._driven.values()):
            driving.stop(Stop.DETACH)

    async def _drive(self, taken: journal.LoadedTurn, since: float) -> None:
        turn, claimed = taken.turn, taken.claimed
        if self._draining:
            leases = self._claimant.leases
            await self._database.write(lambda conn: leases.release(conn, turn.lease))
            return
        stopped = Stop.INTERRUPT if claimed.cancel_requested else None
        driving = RunningTurn(
            turn, TurnStream(taken.recorded, turn.epoch, turn.profile), stopped=stopped
        )
        self._driven[turn.id] = driving
        self.watching.owned(turn.id)
        self._metrics.began(turn)
        self._keeper.hold(turn.lease, since, partial(driving.stop, Stop.DETACH))
        driving.task = self._workers.start(f"turn {turn.id}", self._driven_to_end(driving, claimed))

    async def _driven_to_end(self, driving: RunningTurn, claimed: ClaimedTurn) -> None:
        turn = driving.turn
        driving.began = True
        try:
            with bind(turn_id=turn.id, session_id=turn.session_id), turn_span(turn):
                await self._runner.drive(driving, claimed)
        finally:
            del self._driven[turn.id]
            self._keeper.drop(turn.lease)
            self._metrics.let_go(turn)
            driving.stream.close()
            if turn.finished is not None and turn.kind != REVIEW:
                self._conversations.keep(turn)
            if turn.session_id in self._queued or turn.finished is None:
                self._wake.give()

    def _stream_of(self, turn_id: str) -> TurnStream | None:
        driving = self._driven.get(turn_id)
        return None if driving is None else driving.stream

    def _stop(self, turn_id: str, profile: str) -> None:
        if turn_id in self._driven:
            self._driven[turn_id].stop(Stop.INTERRUPT)
        else:
            self._wake.give()
            self._workers.start(f"interrupt of {turn_id}", self._tell_owner(turn_id, profile))

    async def _tell_owner(self, turn_id: str, profile: str) -> None:
        await self.replicas.interrupt(await self.get(turn_id, profile), profile)

    async def _claim_all(self) -> None:
        room = REVIEWS_AT_ONCE - sum(one.turn.kind == REVIEW for one in self._driven.values())
        found = await self._database.read(lambda conn: claims.free(conn, CLAIMS_AT_ONCE, room))
        # As workers, so that a turn that cannot be loaded does not block others.
        claiming = [
            self._workers.start(f"claim of {turn_id}", self._claim(turn_id))
            for turn_id in found
            if turn_id not in self._driven and not self._draining
        ]
        if claiming:
            await asyncio.wait(claiming)
        self._queued &= await self._waiting_sessions() if self._queued else set()

    async def _claim(self, turn_id: str) -> None:
        now, since = self._clock.now(), self._clock.monotonic()
        try:
            taken = await self._database.write(lambda conn: self._take(conn, turn_id, None, now))
        except IntegrityError:
            return  # another turn of the session began at the same moment
        except DatabaseUnavailable as error:
            _log.warning("turn %s is not taken up yet: %s", turn_id, error)
            return
        if taken is not None:
            self._metrics.resumes.inc(taken.claimed.begun is None)
            await self._drive(taken, since)

    def _take(
        self, conn: Connection, turn_id: str, last: LiveTurn | None, now: datetime
    ) -> journal.LoadedTurn | None:
        claimed = claims.claim(conn, turn_id, self._claimant, now)
        if claimed is None:
            return None
        return journal.load(conn, claimed, self._limits, last)

    async def _waiting_sessions(self) -> set[str]:
        return set(await self._database.read(claims.waiting_sessions))

    async def _stop_cancelled(self) -> None:
        if self._driven:
            asked = await self._database.read(lambda conn: claims.cancelled(conn, self._claimant))
            for turn_id in asked:
                if turn_id in self._driven:
                    self._driven[turn_id].stop(Stop.INTERRUPT)


async def _write_once_more_on_conflict(database: Database, store: Callable[[Connection], _T]) -> _T:
    # If two replicas begin a turn of a session, the unique index admits one.
    try:
        return await database.write(store)
    except IntegrityError:
        return await database.write(store)


async def _expire_approvals(database: Database, metrics: AgentMetrics, now: datetime) -> None:
    for late in await database.read(lambda conn: approvals.expired(conn, now)):
        if await database.write(
            lambda conn, late=late: approvals.expire(conn, late.approval_id, now)
        ):
            metrics.decided(late, Decision.EXPIRED, now)


def _log_decision(info: ApprovalInfo) -> None:
    """Log who decided what; the command itself is only in the row, as logs must not have it."""
    about = {
        "audit": "approval_decided",
        "approval_id": info.approval_id,
        "decision": str(info.decision),
        "decided_by": info.decided_by,
    }
    _log.info("approval %s was decided by %s", info.approval_id, info.decided_by, extra=about)
