"""Reviews: turns that look back at another session, each in a session of its own.

That session has no copy of what it looks at: its own messages are numbered on from those of the
other one, which are read from there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.learning import REVIEW_KIND, ReviewKind
from agent_service.prompt.review import review_prompt
from agent_service.requests import PARENT_SESSION, PARENT_TURN, REVIEW, TurnRequest, Unattended
from agent_service.storage.schema import compaction, review, session, session_state, turn
from agent_service.storage.sessions import MEMORY_LIMITS, OVERLAY, TOKENS_PER_BYTE, revision_after
from agent_service.storage.turns import REQUEST, new_turn
from agent_service.tools.taint import STATE as TAINT
from agent_service.usage import Usage
from services.database import Prepared

MAX_MODEL_CALLS = 16

_KEPT = (OVERLAY, MEMORY_LIMITS, TAINT, TOKENS_PER_BYTE)
"""What a review has of the session's values: how its requests are sent, and what it has read."""
_new = bindparam("new_session", type_=sa.String())
_of = bindparam("of_session", type_=sa.String())
_now = bindparam("now", type_=session.c.created_at.type)
_MADE = {
    "id": _new,
    "platform": sa.literal(REVIEW),
    "usage": bindparam("no_usage", type_=session.c.usage.type),
    "parent_session_id": _of,
    "is_named": sa.false(),
    "revision": bindparam("new_revision", type_=sa.BigInteger()),
    "created_at": _now,
    "updated_at": _now,
}
_SESSION = sa.insert(session).from_select(
    session.c.keys(),
    sa.select(*(_MADE.get(column.name, column) for column in session.columns)).where(
        session.c.id == _of
    ),
)
_STATE = sa.insert(session_state).from_select(
    session_state.c.keys(),
    sa.select(_new, session_state.c.name, session_state.c.value).where(
        session_state.c.session_id == _of, session_state.c.name.in_(_KEPT)
    ),
)
_COMPACTION = sa.insert(compaction).from_select(
    compaction.c.keys(),
    sa.select(_new, *(c for c in compaction.columns if c.name != "session_id")).where(
        compaction.c.session_id == _of
    ),
)
_REVIEW = sa.insert(review).from_select(
    review.c.keys(),
    sa.select(
        _new,
        bindparam("turn_id", type_=sa.String()),
        _of,
        bindparam("parent_turn_id", type_=sa.String()),
        session.c.message_count,
        session.c.revision,
        bindparam("is_told", type_=sa.Boolean()),
    ).where(session.c.id == _of),
)
_TURN = sa.insert(turn)
_GROUND = Prepared(
    sa.select(review.c.parent_session_id, review.c.through, review.c.revision).where(
        review.c.session_id == bindparam("session_id")
    )
)
_REVISION = sa.select(session.c.revision).where(session.c.id == bindparam("session_id"))
_UNTOLD = (
    sa.select(review, turn.c.profile)
    .join(turn, turn.c.id == review.c.turn_id)
    .where(~review.c.is_told, turn.c.finished_at.is_not(None))
    .order_by(turn.c.finished_at)
    .limit(bindparam("most"))
)
_BY_TURN = (
    sa.select(review, turn.c.profile)
    .join(turn, turn.c.id == review.c.turn_id)
    .where(review.c.turn_id == bindparam("turn_id"))
)
_TOLD = sa.update(review).where(review.c.turn_id == bindparam("of_turn")).values(is_told=True)


class Ground(Struct, frozen=True):
    """What a review looks at: the messages of a session up to this one."""

    session_id: str
    through: int


class Untold(Struct, frozen=True):
    """A review that has ended, and of which somebody may want to hear."""

    turn_id: str
    session_id: str
    profile: str
    parent_session_id: str
    origin: Mapping[str, str]
    """Where the message came from with whose turn it began."""


def turn_id_of(parent_turn_id: str) -> str:
    """The id of the review that begins with the end of a turn."""
    return f"trn_{_digest(parent_turn_id)}"


def session_id_of(turn_id: str) -> str:
    """The id of a review's session."""
    return f"rev_{_digest(turn_id)}"


def asked(
    last: TurnRequest, turn_id: str, *, memory: bool, skills: bool, is_last: bool = False
) -> TurnRequest:
    """A review of what was said up to the last turn of a session.

    That turn's model, its toolsets and what is denied to it are the review's, too.
    """
    return TurnRequest(
        turn_id=turn_id,
        profile=last.profile,
        session_id=session_id_of(turn_id),
        text=review_prompt(memory=memory, skills=skills, is_last=is_last),
        origin={
            "platform": REVIEW,
            PARENT_SESSION: last.session_id,
            PARENT_TURN: last.turn_id,
            REVIEW_KIND: ReviewKind.of(memory=memory, skills=skills),
        },
        kind=REVIEW,
        model=last.model,
        max_model_calls=MAX_MODEL_CALLS,
        toolsets=last.granted,
        unattended=Unattended.DENY,
        denied=last.denied,
        switched=last.switched,
    )


def begin(
    conn: Connection, review: TurnRequest, now: datetime, *, is_told: bool, digest: str = ""
) -> None:
    """Store a review, for whoever has room for it; the session that it looks back at is idle.

    With `is_told` nobody is to hear of what comes of it; `digest` is of what asked for it.
    """
    between = {"new_session": review.session_id, "of_session": review.parent_session_id}
    made: dict[str, Any] = {
        "no_usage": Usage(),
        "new_revision": revision_after(-1, now),
        "now": now,
    }
    conn.execute(_SESSION, between | made)
    conn.execute(_STATE, between)
    conn.execute(_COMPACTION, between)
    conn.execute(_TURN, new_turn(review, digest, now))
    told = {"turn_id": review.turn_id, "parent_turn_id": review.origin[PARENT_TURN]}
    conn.execute(_REVIEW, between | told | {"is_told": is_told})


def ground_of(conn: Connection, session_id: str) -> Ground | None:
    """What a review looks at; None where that is not there any more, or was taken back."""
    found = _GROUND.rows(conn, {"session_id": session_id}).one()
    revision = conn.execute(_REVISION, {"session_id": found.parent_session_id}).scalar()
    return Ground(found.parent_session_id, found.through) if revision == found.revision else None


def has_ground(conn: Connection, session_id: str) -> bool:
    """Whether there still is what a review looks at."""
    return ground_of(conn, session_id) is not None


def untold(conn: Connection, most: int) -> Sequence[Untold]:
    """Reviews that have ended and of which nobody was told yet, the oldest first."""
    return [_untold(conn, row) for row in conn.execute(_UNTOLD, {"most": most}).all()]


def untold_of(conn: Connection, turn_id: str) -> Untold | None:
    """A review of which nobody was told yet; None where nobody is to be."""
    row = conn.execute(_BY_TURN, {"turn_id": turn_id}).one_or_none()
    return None if row is None or row.is_told else _untold(conn, row)


def told(conn: Connection, turn_id: str) -> None:
    """Nobody has to be told of a review any more."""
    conn.execute(_TOLD, {"of_turn": turn_id})


def _untold(conn: Connection, row: sa.Row[Any]) -> Untold:
    request: TurnRequest | None = conn.execute(REQUEST, {"turn_id": row.parent_turn_id}).scalar()
    return Untold(
        turn_id=row.turn_id,
        session_id=row.session_id,
        profile=row.profile,
        parent_session_id=row.parent_session_id,
        origin={} if request is None else request.origin,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(f"{text}/review".encode()).hexdigest()[:26]
