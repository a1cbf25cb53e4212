"""The outbox in the database: messages to send, and their state."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace
from sqlalchemy import Connection, bindparam

from gateway_service.messages import Address, Content
from gateway_service.storage.schema import outbox
from services.database import Prepared, UtcTime, insert_ignore
from services.validation import convert

REPEAT = "_This may be a repeat:_\n"
"""The prefix of a message that may have been sent before."""
REPEAT_UNITS = 32
"""Room for it in a part."""


_LONG_S = 1e9


class Kind(StrEnum):
    """How a message is created."""

    ANSWER = "ANSWER"
    """As a placeholder that is then edited, so that it never appears twice."""
    MESSAGE = "MESSAGE"
    """Directly; a repeat is marked as one, and created like an answer."""


class State(StrEnum):
    """State of a message."""

    HELD = "HELD"
    """Waits for the text of an answer that it belongs to."""
    PENDING = "PENDING"
    SENDING = "SENDING"
    SENT = "SENT"
    MARKED_DUPLICATE = "MARKED_DUPLICATE"
    ABANDONED = "ABANDONED"


OPEN = (State.HELD, State.PENDING, State.SENDING)
"""States of messages that were not sent yet."""


class Part(Struct, frozen=True):
    """One message of a chat, to be sent."""

    sequence: int
    delivery_id: str
    address: Address
    kind: Kind
    content: Content
    version: int
    uncertain: bool
    attempts: int
    message_id: str | None
    due_since: datetime
    traceparent: str = ""

    @property
    def key(self) -> str:
        """Return what is the same whenever this message is sent again."""
        # A message that replaces one that is gone is another message.
        named = f"{self.delivery_id}:{self.sequence}:{self.kind}"
        return hashlib.sha256(named.encode()).hexdigest()[:24]

    @property
    def comes_empty(self) -> bool:
        """Return whether it is created as a placeholder, so that only that can appear twice."""
        is_text = self.content.attachment is None
        return self.kind is Kind.ANSWER or (self.uncertain and is_text)

    @property
    def shown(self) -> Content:
        """Return the content to send, marked if it may be a repeat."""
        return (
            replace(self.content, text=REPEAT + self.content.text)
            if self.uncertain
            else self.content
        )


class Delivery(Struct, frozen=True):
    """Messages to be sent to a chat in this order."""

    id: str
    address: Address
    contents: Sequence[Content]
    kind: Kind = Kind.MESSAGE
    first_part: int = 1
    digest: str = ""
    """Distinguishes a repeat from another request with the same id."""
    traceparent: str = ""
    """The trace span that it belongs to; empty without tracing."""
    pauses_s: Sequence[float] = ()
    """How long to wait before each of the messages; empty means not at all."""


class Stored(Struct, frozen=True):
    """A stored part of a delivery."""

    address: Address
    digest: str
    state: State
    last_error: str
    created_at: datetime


_INSERT = Prepared(insert_ignore(outbox))
_NEXT = Prepared(
    sa.select(outbox)
    .where(
        outbox.c.platform == bindparam("of_platform"),
        outbox.c.account_id == bindparam("of_account"),
        outbox.c.chat_id == bindparam("of_chat"),
        outbox.c.state == State.PENDING,
    )
    .order_by(outbox.c.sequence)
    .limit(1)
)
_BEGIN = Prepared(
    sa.update(outbox)
    .where(outbox.c.sequence == bindparam("of_sequence"))
    .values(state=State.SENDING, attempts=bindparam("attempts"))
)
_SETTLE = Prepared(
    sa.update(outbox)
    .where(outbox.c.sequence == bindparam("of_sequence"), outbox.c.state == State.SENDING)
    .values(
        # A newer version must be sent as well.
        state=sa.case(
            (outbox.c.version == bindparam("of_version"), bindparam("outcome", type_=sa.String())),
            else_=State.PENDING,
        ),
        kind=bindparam("kind"),
        uncertain=bindparam("uncertain"),
        platform_message_id=bindparam("platform_message_id"),
        next_attempt_at=bindparam("next_attempt_at"),
        last_error=bindparam("last_error"),
        sent_at=bindparam("sent_at"),
    )
)
_SHOW = Prepared(
    sa.update(outbox)
    .where(
        outbox.c.delivery_id == bindparam("of_delivery"), outbox.c.part == 1, outbox.c.version == 0
    )
    .values(
        payload=bindparam("payload"),
        version=outbox.c.version + 1,
        attempts=0,
        due_since=bindparam("due_since"),
        next_attempt_at=bindparam("next_attempt_at"),
        # A message that is being sent continues; its sender sees the new version and edits it.
        state=sa.case((outbox.c.state == State.SENDING, State.SENDING), else_=State.PENDING),
    )
)


def add(conn: Connection, delivery: Delivery, now: datetime, state: State = State.PENDING) -> None:
    """Store messages to send; existing ones stay as they are."""
    waits_s = accumulate(delivery.pauses_s or (0.0,) * len(delivery.contents))
    rows: list[dict[str, Any]] = [
        {
            **asdict(delivery.address),
            "delivery_id": delivery.id,
            "part": part,
            "kind": delivery.kind,
            "payload": payload_of(content),
            "digest": delivery.digest,
            "version": 0,
            "state": state,
            "uncertain": False,
            "attempts": 0,
            "due_since": now,
            "next_attempt_at": now + timedelta(seconds=wait_s),
            "last_error": "",
            "created_at": now,
            "traceparent": delivery.traceparent or None,
        }
        for part, (content, wait_s) in enumerate(
            zip(delivery.contents, waits_s, strict=True), delivery.first_part
        )
    ]
    _INSERT.run_all(conn, rows)


def show(conn: Connection, delivery_id: str, content: Content, now: datetime) -> bool:
    """Change the first part's content; return whether this is new."""
    due = {"due_since": now, "next_attempt_at": now}
    values = {"of_delivery": delivery_id, "payload": payload_of(content), **due}
    return _SHOW.run(conn, values) > 0


def message_id(conn: Connection, delivery_id: str) -> str | None:
    """Return the platform's id of a delivery's first part, once it exists there."""
    first = (outbox.c.delivery_id == delivery_id, outbox.c.part == 1)
    query = sa.select(outbox.c.platform_message_id).where(*first)
    return conn.execute(query).scalar_one_or_none()


def find_delivery(conn: Connection, address: Address, message_id: str) -> str | None:
    """Return the delivery that a chat's message belongs to, while it is kept."""
    is_message = (*_in_chat(address), outbox.c.platform_message_id == message_id)
    return conn.execute(sa.select(outbox.c.delivery_id).where(*is_message)).scalars().first()


def is_in_chat(conn: Connection, address: Address, delivery_id: str) -> bool:
    """Return whether a delivery went to a chat, while it is kept."""
    is_part = (*_in_chat(address), outbox.c.delivery_id == delivery_id)
    return conn.execute(sa.select(outbox.c.sequence).where(*is_part)).first() is not None


def unsettled(conn: Connection, prefix: str) -> Sequence[str]:
    """Return the deliveries whose ids begin so and that were not changed since."""
    query = sa.select(outbox.c.delivery_id).where(
        outbox.c.delivery_id.startswith(prefix, autoescape=True), outbox.c.version == 0
    )
    return conn.execute(query).scalars().all()


def find(conn: Connection, delivery_id: str) -> Sequence[Stored]:
    """Return a delivery's parts, in any chat; none if it does not exist."""
    query = sa.select(outbox).where(outbox.c.delivery_id == delivery_id).order_by(outbox.c.part)
    return [
        Stored(_address(row), row.digest, State(row.state), row.last_error, row.created_at)
        for row in conn.execute(query)
    ]


def waiting_chats(conn: Connection, platform: str, account_id: str) -> Mapping[str, datetime]:
    """Return the chats with waiting messages, and when these may be sent."""
    first_of_chats = (
        sa.select(sa.func.min(outbox.c.sequence))
        .where(*_of_account(platform, account_id), outbox.c.state == State.PENDING)
        .group_by(outbox.c.chat_id)
    )
    query = sa.select(outbox).where(outbox.c.sequence.in_(first_of_chats))
    return {row.chat_id: row.next_attempt_at for row in conn.execute(query)}


def begin(
    conn: Connection, platform: str, account_id: str, chat_id: str, now: datetime
) -> Part | None:
    """Mark the next message of a chat as being sent; None if none may be sent yet."""
    chat = {"of_platform": platform, "of_account": account_id, "of_chat": chat_id}
    row = _NEXT.rows(conn, chat).one_or_none()
    if row is None or row.next_attempt_at > now:
        return None
    _BEGIN.run(conn, {"of_sequence": row.sequence, "attempts": row.attempts + 1})
    return part_of(row)


def settle(
    conn: Connection,
    part: Part,
    state: State,
    now: datetime,
    *,
    next_attempt_at: datetime | None = None,
    error: str = "",
) -> None:
    """Store the outcome of sending a part, with its current id, kind and doubt."""
    values = {
        "of_sequence": part.sequence,
        "of_version": part.version,
        "outcome": state,
        "kind": part.kind,
        "uncertain": part.uncertain,
        "platform_message_id": part.message_id,
        "next_attempt_at": next_attempt_at or now,
        "last_error": error,
        "sent_at": now,
    }
    _SETTLE.run(conn, values)


def take_over(
    conn: Connection,
    platform: str,
    account_id: str,
    busy: Sequence[str],
    now: datetime,
    repeats_safely_s: float = 0.0,
) -> int:
    """Make messages of lost senders pending again; return their number."""
    oldest_safe = now - timedelta(seconds=min(repeats_safely_s, _LONG_S))
    is_new = sa.and_(
        outbox.c.kind == Kind.MESSAGE,
        outbox.c.platform_message_id.is_(None),
        outbox.c.due_since <= oldest_safe,
    )
    update = (
        sa.update(outbox)
        .where(
            *_of_account(platform, account_id),
            outbox.c.state == State.SENDING,
            outbox.c.chat_id.not_in(busy),
        )
        .values(
            state=State.PENDING, next_attempt_at=now, uncertain=sa.or_(outbox.c.uncertain, is_new)
        )
    )
    return conn.execute(update).rowcount


def backlog(conn: Connection, but_platform: str) -> tuple[int, datetime | None]:
    """Return the number of waiting messages and the oldest time, without those of one platform."""
    query = sa.select(sa.func.count(), sa.func.min(outbox.c.due_since, type_=UtcTime())).where(
        outbox.c.platform != but_platform, outbox.c.state.in_((State.PENDING, State.SENDING))
    )
    count, oldest = conn.execute(query).one()
    return count, oldest


def forget(conn: Connection, before: datetime) -> int:
    """Delete what was sent or given up before a time; return how many."""
    return conn.execute(sa.delete(outbox).where(_is_done(), outbox.c.sent_at < before)).rowcount


def forget_sent(conn: Connection, prefix: str) -> None:
    """Delete what was sent or given up of the deliveries whose ids begin so."""
    begins_so = outbox.c.delivery_id.startswith(prefix, autoescape=True)
    conn.execute(sa.delete(outbox).where(_is_done(), begins_so))


def _is_done() -> sa.ColumnElement[bool]:
    return outbox.c.state.in_((State.SENT, State.MARKED_DUPLICATE, State.ABANDONED))


def _of_account(platform: str, account_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return outbox.c.platform == platform, outbox.c.account_id == account_id


def _in_chat(address: Address) -> tuple[sa.ColumnElement[bool], ...]:
    account = _of_account(address.platform, address.account_id)
    return (*account, outbox.c.chat_id == address.chat_id)


def part_of(row: sa.Row[Any]) -> Part:
    """Return a row as a Part."""
    return Part(
        sequence=row.sequence,
        delivery_id=row.delivery_id,
        address=_address(row),
        kind=Kind(row.kind),
        content=convert(row.payload, Content),
        version=row.version,
        uncertain=row.uncertain,
        attempts=row.attempts,
        message_id=row.platform_message_id,
        due_since=row.due_since,
        traceparent=row.traceparent or "",
    )


def _address(row: sa.Row[Any]) -> Address:
    return Address(row.profile, row.platform, row.account_id, row.chat_id, row.thread_id)


def payload_of(content: Content) -> dict[str, Any]:
    """Return a content as it is stored: without the data of its files."""
    payload = to_builtins(content)
    for file in filter(None, (payload["attachment"], *payload["album"])):
        del file["data"]
    return payload
