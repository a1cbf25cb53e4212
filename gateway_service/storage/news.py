"""News in the outbox: they wait for a client that is connected, not for a platform."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from gateway_service.messages import CLI
from gateway_service.storage.outbox import Part, State, part_of
from gateway_service.storage.schema import outbox
from services.database import UtcTime

_WAITING = (
    sa.select(outbox)
    .where(
        outbox.c.platform == CLI,
        outbox.c.profile == bindparam("profile"),
        sa.or_(
            outbox.c.state == State.PENDING,
            sa.and_(
                outbox.c.state == State.SENDING,
                outbox.c.next_attempt_at < bindparam("now", type_=UtcTime()),
            ),
        ),
    )
    .order_by(outbox.c.sequence)
)
_BEGIN = (
    sa.update(outbox)
    .where(
        outbox.c.sequence == bindparam("of_sequence"),
        outbox.c.attempts == bindparam("seen_attempts"),
        outbox.c.state.in_((State.PENDING, State.SENDING)),
    )
    .values(
        state=State.SENDING,
        attempts=outbox.c.attempts + 1,
        uncertain=bindparam("now_uncertain", type_=sa.Boolean()),
        next_attempt_at=bindparam("until", type_=UtcTime()),
    )
)


def waiting(conn: Connection, profile: str, now: datetime) -> Sequence[Part]:
    """What nobody has been told yet, oldest first; in doubt where a telling was broken off."""
    rows = conn.execute(_WAITING, {"profile": profile, "now": now})
    return [replace(part_of(row), uncertain=row.state == State.SENDING) for row in rows]


def begin(conn: Connection, part: Part, until: datetime) -> bool:
    """Mark news as being told up to a time; returns whether nobody else was faster."""
    values = {
        "of_sequence": part.sequence,
        "seen_attempts": part.attempts,
        "now_uncertain": part.uncertain,
        "until": until,
    }
    return conn.execute(_BEGIN, values).rowcount > 0
