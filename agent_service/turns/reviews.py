"""Turns that review a conversation: started on request, and reported in one line."""

import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.config.sessions import LearningConfig
from agent_service.profiles.memory.entries import parse
from agent_service.profiles.skills.manage import NOTES as SKILL_CHANGES
from agent_service.records.messages import (
    NO_CHATS,
    TERMINAL,
    Message,
    Messenger,
    NotSent,
    SendingUnknown,
    Target,
)
from agent_service.records.requests import REVIEW, TurnInfo, TurnRequest
from agent_service.records.reviews import review_request
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import reviews, sessions, turns
from agent_service.storage.memory import MemoryChange, of_turn
from agent_service.storage.reviews import EndedReview
from agent_service.storage.schema import turn as turn_rows
from agent_service.storage.session_changes import hold, hold_idle
from agent_service.turns.review_scheduler import MEMORY, SKILLS
from services.clock import Clock
from services.database import Database
from services.database.hints import Hint
from services.database.queue import poll
from services.errors import FailedPrecondition

LOOK_S = 60.0
"""The interval at which unreported reviews are looked for, in case their owner was lost."""
TOLD_AT_ONCE = 20
LINE_CHARS = 300

_log = logging.getLogger(__name__)
_LAST_REQUEST = (
    sa.select(turn_rows.c.request)
    .where(turn_rows.c.session_id == sa.bindparam("session_id"))
    .order_by(turn_rows.c.created_at.desc(), turn_rows.c.id.desc())
    .limit(1)
)


class ReviewOutcome(Struct, frozen=True):
    """What a review stored."""

    memories: Sequence[MemoryChange]
    skills: Mapping[str, str]
    """The last action on each skill, by name."""

    def line(self, notifications: str) -> str:
        """Return the report for the person; empty if there is nothing to report."""
        parts = [*self._memories(notifications), *self._skills()]
        return " ".join(parts)[:LINE_CHARS] if notifications != "off" else ""

    def _memories(self, notifications: str) -> Sequence[str]:
        if not self.memories:
            return ()
        if notifications == "on":
            targets = " and ".join(sorted({_NAMES[change.target] for change in self.memories}))
            return (f"Looking back, I have noted something about {targets}.",)
        before = {entry for change in self.memories for entry in parse(change.before)}
        after = {entry: None for change in self.memories for entry in parse(change.after)}
        new = [" ".join(entry.split()) for entry in after if entry not in before]
        text = "; ".join(f"“{entry}”" for entry in new)
        return (f"Looking back, I have noted: {text or 'less than before'}.",)

    def _skills(self) -> Sequence[str]:
        named = ", ".join(f"`{name}` ({done})" for name, done in sorted(self.skills.items()))
        return (f"Looking back, I have kept what I learned: {named}.",) if named else ()


_NAMES = {"memory": "my work", "user": "you"}


class Reviews:
    """Reports reviews, and starts those that are requested."""

    def __init__(
        self,
        database: Database,
        messenger: Messenger,
        config: LearningConfig,
        toolsets: Set[str],
        clock: Clock,
    ) -> None:
        self._database = database
        self._messenger = messenger
        self._notifications = config.notifications
        self._toolsets = toolsets
        self._clock = clock
        self._ended = Hint()

    async def after(self, turn: LiveTurn) -> None:
        """Report a review that has ended, in the background."""
        if turn.kind == REVIEW:
            self._ended.give()

    async def run(self) -> None:
        await poll("the report of reviews", self._look, self._ended)

    async def _look(self) -> float:
        for found in await self._database.read(lambda conn: reviews.unreported(conn, TOLD_AT_ONCE)):
            await self._tell(found)
        return LOOK_S

    async def last(self, request: TurnRequest) -> TurnInfo:
        """Start the last review of a session that a person has left.

        NotFound if there is none, FailedPrecondition if it is busy or nothing could be stored.
        """
        now, digest = self._clock.now(), _digest(request)

        def write(conn: Connection) -> TurnInfo:
            if (known := turns.existing(conn, request, digest)) is not None:
                return known
            hold(conn, request.session_id, request.profile)
            # A concurrent identical request may have begun it.
            if (known := turns.existing(conn, request, digest)) is not None:
                return known
            hold_idle(conn, request.session_id, request.profile)
            review = _review(conn, request, self._toolsets)
            reviews.begin(conn, review, now, is_told=True, digest=digest)
            return turns.get(conn, request.turn_id, request.profile)

        return await self._database.write(write)

    async def _tell(self, found: EndedReview) -> None:
        gained = await self._database.read(lambda conn: _gained(conn, found))
        text, target = gained.line(self._notifications), _target(found)
        if text and target is not None:
            message = Message(found.turn_id, found.profile, target, text)
            try:
                await self._messenger.send(message)
            except NotSent as error:
                _log.warning("nobody is told of the review %s: %s", found.turn_id, error)
            except SendingUnknown:
                return  # it is reported later
        await self._database.write(lambda conn: reviews.mark_reported(conn, found.turn_id))


def _digest(request: TurnRequest) -> str:
    return hashlib.sha256(f"{REVIEW}/{request.session_id}".encode()).hexdigest()


def _review(conn: Connection, request: TurnRequest, has: Collection[str]) -> TurnRequest:
    last: TurnRequest | None = conn.scalar(_LAST_REQUEST, {"session_id": request.session_id})
    if last is None:
        raise FailedPrecondition(f"nothing was said in session {request.session_id} yet")
    usable = set(last.granted or has) & set(has)
    if not usable & {MEMORY, SKILLS}:
        raise FailedPrecondition("neither memory nor skills can be used in the session")
    memory, skills = MEMORY in usable, SKILLS in usable
    return review_request(last, request.turn_id, memory=memory, skills=skills, is_last=True)


def _gained(conn: Connection, found: EndedReview) -> ReviewOutcome:
    changes: dict[str, Any] = sessions.get_state(conn, found.session_id, SKILL_CHANGES) or {}
    skills = {note["name"]: note["use"] for note in changes.values()}
    return ReviewOutcome(of_turn(conn, found.profile, found.turn_id), skills)


def _target(found: EndedReview) -> Target | None:
    platform = found.origin.get("platform", "")
    if platform == TERMINAL:
        return Target(TERMINAL, found.parent_session_id)
    target = Target.of_origin(found.origin)
    return None if target is None or target.platform in NO_CHATS else target
