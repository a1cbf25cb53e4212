"""Notifications for terminals in the database: messages of the outbox that terminals take."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.messages import CLI, Address, Content, DeliveryFailure
from gateway_service.storage import outbox as messages
from gateway_service.storage.inbox import Account
from gateway_service.storage.outbox import Delivery, Part, State, part_of
from gateway_service.storage.schema import outbox

TERMINAL = "terminal"
"""Instead of a session: the next terminal that is open."""


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


def failure_notice(part: Part, why: str) -> Delivery:
    """Return what the owner's next terminal is told of a message that was not delivered."""
    address, content = part.address, part.content
    lost = content.text or ", ".join(each.name for each in content.attachments)
    text = f"Not delivered to {address.platform}:{address.chat_id} ({why}):\n\n{lost}"
    to = Address(address.profile, CLI, "", TERMINAL)
    return Delivery(f"lost_{part.sequence}", to, [Content(text)], traceparent=part.traceparent)


def note_failure(
    conn: Connection, account: Account, failure: DeliveryFailure, now: datetime
) -> None:
    """Note that a message that was sent did not arrive; unknown ones are ignored."""
    is_sent = outbox.c.state.in_((State.SENT, State.MARKED_DUPLICATE))
    owner = (outbox.c.platform == account.platform, outbox.c.account_id == account.account_id)
    is_message = outbox.c.platform_message_id == failure.message_id
    row = conn.execute(sa.select(outbox).where(*owner, is_message, is_sent)).one_or_none()
    if row is not None:
        values = {"state": State.ABANDONED, "last_error": failure.reason}
        conn.execute(sa.update(outbox).where(outbox.c.sequence == row.sequence).values(**values))
        messages.add(conn, failure_notice(part_of(row), failure.reason), now)
