"""A profile's current activity and chats, and what waits in all profiles."""

from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.records.events import CLARIFY
from agent_service.records.requests import BATCH, JOBS, REVIEW, SUBAGENT
from agent_service.storage.schema import CLAIMABLE_STATES, approval, session, turn, watched_command


class Activity(Struct, frozen=True):
    """The current activity of a profile."""

    last_at: datetime | None
    """When somebody last talked to it; None means never."""
    is_busy: bool
    """A turn is in progress, including those of jobs."""


def is_session_busy(conn: Connection, session_id: str) -> bool:
    """Return whether the session has an unfinished turn or a watched command."""
    its_turns = turn.c.session_id == session_id, turn.c.finished_at.is_(None)
    queries = (
        sa.select(turn.c.id).where(*its_turns),
        sa.select(watched_command.c.id).where(watched_command.c.session_id == session_id),
    )
    return any(conn.execute(query).first() is not None for query in queries)


def activity(conn: Connection, profile: str) -> Activity:
    """Return a profile's current activity."""
    last_at = sa.select(sa.func.max(session.c.updated_at)).where(
        session.c.profile == profile,
        ~session.c.id.startswith(JOBS, autoescape=True),
        session.c.platform.not_in((REVIEW, SUBAGENT, BATCH)),
    )
    live = turn.c.state.in_(CLAIMABLE_STATES), turn.c.profile == profile
    found = conn.execute(sa.select(turn.c.id).where(*live).limit(1)).first()
    return Activity(conn.scalar(last_at), found is not None)


_QUEUED = sa.select(sa.func.min(turn.c.created_at)).where(turn.c.state == "QUEUED")
_ASKED = sa.select(sa.func.count(), sa.func.min(approval.c.created_at)).where(
    approval.c.decision.is_(None), approval.c.tool != CLARIFY
)


class Waiting(Struct, frozen=True):
    """The age of what waits, and how much it is."""

    queued_at: datetime | None
    """Creation time of the oldest turn that has not begun."""
    approvals: int
    asked_at: datetime | None
    """Creation time of the oldest undecided question."""


def waiting(conn: Connection) -> Waiting:
    """Return what waits now."""
    count, asked_at = conn.execute(_ASKED).one()
    return Waiting(conn.scalar(_QUEUED), count, asked_at)
