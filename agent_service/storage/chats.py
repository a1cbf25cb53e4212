"""The chats that messages came from."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.messaging import NO_CHATS, Target
from agent_service.storage.schema import session, turn

MAX_SESSIONS = 200


def known(conn: Connection, profile: str) -> Sequence[Target]:
    """The chats that a profile's latest messages came from, the latest first."""
    sessions = (
        sa.select(session.c.id)
        .where(session.c.profile == profile, session.c.platform.not_in(NO_CHATS))
        .order_by(session.c.updated_at.desc())
        .limit(MAX_SESSIONS)
    )
    latest = (
        sa.select(turn.c.session_id, sa.func.max(turn.c.created_at).label("at"))
        .where(turn.c.session_id.in_(sessions))
        .group_by(turn.c.session_id)
        .subquery()
    )
    is_latest = turn.c.session_id == latest.c.session_id, turn.c.created_at == latest.c.at
    requests = sa.select(turn.c.request).join(latest, sa.and_(*is_latest))
    rows = conn.scalars(requests.order_by(turn.c.created_at.desc()))
    found = (Target.of_origin(request.origin) for request in rows)
    return list(dict.fromkeys(target for target in found if target is not None))
