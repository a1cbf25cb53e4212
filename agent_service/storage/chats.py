"""The chats that messages came from."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.messaging import NO_CHATS, Target
from agent_service.storage.schema import session, turn

MAX_SESSIONS = 200

_SESSIONS = (
    sa.select(session.c.id)
    .where(session.c.profile == bindparam("profile"), session.c.platform.not_in(NO_CHATS))
    .order_by(session.c.updated_at.desc())
    .limit(MAX_SESSIONS)
)
_LATEST = (
    sa.select(turn.c.session_id, sa.func.max(turn.c.created_at).label("at"))
    .where(turn.c.session_id.in_(_SESSIONS))
    .group_by(turn.c.session_id)
    .subquery()
)
_REQUESTS = (
    sa.select(turn.c.request)
    .join(
        _LATEST,
        sa.and_(turn.c.session_id == _LATEST.c.session_id, turn.c.created_at == _LATEST.c.at),
    )
    .order_by(turn.c.created_at.desc())
)


def known(conn: Connection, profile: str) -> Sequence[Target]:
    """The chats that a profile's latest messages came from, the latest first."""
    rows = conn.execute(_REQUESTS, {"profile": profile})
    found = (Target.of_origin(row.request.origin) for row in rows)
    return list(dict.fromkeys(target for target in found if target is not None))
