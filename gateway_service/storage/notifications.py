"""Notifications for terminals in the database: messages of the outbox that terminals take."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.messages import CLI
from gateway_service.storage.outbox import Part, State, part_of
from gateway_service.storage.schema import outbox


def waiting(conn: Connection, profile: str, now: datetime) -> Sequence[Part]:
    """Return unsent notifications, oldest first; in doubt if sending was broken off."""
    broken_off = sa.and_(outbox.c.state == State.SENDING, outbox.c.next_attempt_at < now)
    query = sa.select(outbox).where(
        outbox.c.platform == CLI,
        outbox.c.profile == profile,
        sa.or_(outbox.c.state == State.PENDING, broken_off),
    )
    return [
        replace(part_of(row), uncertain=row.state == State.SENDING)
        for row in conn.execute(query.order_by(outbox.c.sequence))
    ]


def begin(conn: Connection, part: Part, until: datetime) -> bool:
    """Mark a notification as being sent until a time; False if another process was faster."""
    update = (
        sa.update(outbox)
        .where(
            outbox.c.sequence == part.sequence,
            outbox.c.attempts == part.attempts,
            outbox.c.state.in_((State.PENDING, State.SENDING)),
        )
        .values(
            state=State.SENDING,
            attempts=part.attempts + 1,
            uncertain=part.uncertain,
            next_attempt_at=until,
        )
    )
    return conn.execute(update).rowcount > 0
