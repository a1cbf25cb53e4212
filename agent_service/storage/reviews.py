"""Reviews: turns that look back at another session, each in a session of its own.

A review's session has no copy of the messages that it reviews; its own messages continue their
numbering.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.requests import PARENT_TURN, REVIEW, TurnRequest
from agent_service.records.usage import Usage
from agent_service.storage.schema import review as review_row
from agent_service.storage.schema import session, session_state, turn
from agent_service.storage.sessions import (
    MEMORY_LIMITS,
    OVERLAY,
    TAINT,
    TOKENS_PER_BYTE,
    copy,
    revision_after,
)
from agent_service.storage.turns import REQUEST, new_turn
from services.database import Prepared

REFUSED = "review_refused"
"""The session value with what a review was not allowed to keep, each with the reason."""
_KEPT = (OVERLAY, MEMORY_LIMITS, TAINT, TOKENS_PER_BYTE)
"""The session values that a review inherits: how requests are sent, and what was read."""
_GROUND = Prepared(
    sa.select(review_row.c.parent_session_id, review_row.c.through, review_row.c.revision).where(
        review_row.c.session_id == bindparam("session_id")
    )
)
_STATE_OF = sa.select(session.c.revision, session.c.message_count).where(
    session.c.id == bindparam("session_id")
)
_ENDED = sa.select(review_row, turn.c.profile).join(turn, turn.c.id == review_row.c.turn_id)


class ReviewedMessages(Struct, frozen=True):
    """The reviewed messages: those of a session up to this one."""

    session_id: str
    through: int


class EndedReview(Struct, frozen=True):
    """A review that has ended and may have to be reported."""

    turn_id: str
    session_id: str
    profile: str
    parent_session_id: str
    origin: Mapping[str, str]
    """The origin of the message whose turn it followed."""


def begin(
    conn: Connection, review: TurnRequest, now: datetime, *, is_told: bool, digest: str = ""
) -> None:
    """Store a review of an idle session, for any replica to run.

    With `is_told` its result is not reported; `digest` is that of the request.
    """
    own, of = review.session_id, review.parent_session_id
    made: dict[str, Any] = {
        "platform": REVIEW,
        "usage": Usage(),
        "parent_session_id": of,
        "is_named": False,
        "revision": revision_after(-1, now),
        "created_at": now,
        "updated_at": now,
    }
    conn.execute(copy(session, session.c.id == of, id=own, **made))
    is_kept = session_state.c.name.in_(_KEPT)
    conn.execute(copy(session_state, session_state.c.session_id == of, is_kept, session_id=own))
    conn.execute(sa.insert(turn), new_turn(review, digest, now))
    looked_at = conn.execute(_STATE_OF, {"session_id": of}).one()
    row = {
        "session_id": own,
        "turn_id": review.turn_id,
        "parent_session_id": of,
        "parent_turn_id": review.origin[PARENT_TURN],
        "through": looked_at.message_count,
        "revision": looked_at.revision,
        "is_told": is_told,
    }
    conn.execute(sa.insert(review_row), row)


def ground_of(conn: Connection, session_id: str) -> ReviewedMessages | None:
    """Return the reviewed messages; None if they are gone or were taken back."""
    found = _GROUND.rows(conn, {"session_id": session_id}).one()
    revision = conn.execute(_STATE_OF, {"session_id": found.parent_session_id}).scalar()
    if revision != found.revision:
        return None
    return ReviewedMessages(found.parent_session_id, found.through)


def unreported(conn: Connection, most: int) -> Sequence[EndedReview]:
    """Return ended reviews that were not reported yet, oldest first."""
    found = _ENDED.where(~review_row.c.is_told, turn.c.finished_at.is_not(None))
    rows = conn.execute(found.order_by(turn.c.finished_at).limit(most)).all()
    return [_ended_review(conn, row) for row in rows]


def refusals(conn: Connection, profile: str, since: datetime, most: int) -> Sequence[str]:
    """Return what reviews were not allowed to keep, the newest first."""
    found = (
        sa.select(session_state.c.value)
        .join(session, session.c.id == session_state.c.session_id)
        .where(
            session.c.profile == profile,
            session.c.platform == REVIEW,
            session.c.updated_at > since,
            session_state.c.name == REFUSED,
        )
        .order_by(session.c.updated_at.desc(), session.c.id.desc())
        .limit(most)
    )
    texts = [text for value in conn.scalars(found) for text in value]
    return list(dict.fromkeys(texts))[:most]


def mark_reported(conn: Connection, turn_id: str) -> None:
    """Note that a review was reported."""
    row = sa.update(review_row).where(review_row.c.turn_id == turn_id)
    conn.execute(row.values(is_told=True))


def _ended_review(conn: Connection, row: sa.Row[Any]) -> EndedReview:
    request: TurnRequest | None = conn.execute(REQUEST, {"turn_id": row.parent_turn_id}).scalar()
    return EndedReview(
        turn_id=row.turn_id,
        session_id=row.session_id,
        profile=row.profile,
        parent_session_id=row.parent_session_id,
        origin={} if request is None else request.origin,
    )
