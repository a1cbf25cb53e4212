"""The outbox in the database: what is to be shown where, and how far that has come."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace
from sqlalchemy import Connection, bindparam

from gateway_service.messages import Attachment, Button, Content
from gateway_service.storage.schema import outbox
from services.database import UtcTime, insert_ignore

REPEAT = "_This may be a repeat:_\n"
"""Begins a message of which nobody knows whether it was there before."""
REPEAT_UNITS = 32
"""Room for it in a part."""


class Kind(StrEnum):
    """How a message comes to be."""

    ANSWER = "ANSWER"
    """As a placeholder that is edited; so it is never there twice."""
    MESSAGE = "MESSAGE"
    """As what it is; a repeat says that it may be one, and comes as an answer does."""


class State(StrEnum):
    """How far a message has come."""

    PENDING = "PENDING"
    SENDING = "SENDING"
    SENT = "SENT"
    MARKED_DUPLICATE = "MARKED_DUPLICATE"
    ABANDONED = "ABANDONED"


class Address(Struct, frozen=True):
    """An account, and a chat that it writes to."""

    profile: str
    platform: str
    account_id: str
    chat_id: str
    thread_id: str = ""


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
    def comes_empty(self) -> bool:
        """Whether it is created as a placeholder, so that no more than that is there twice."""
        is_text = self.content.attachment is None
        return self.kind is Kind.ANSWER or (self.uncertain and is_text)

    @property
    def shown(self) -> Content:
        """What is sent: with a mark where it may be there already."""
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
    """Of what was asked for, to tell a repeat from another request with the same id."""
    traceparent: str = ""
    """Names the span that it belongs to; empty where nothing is traced."""


class Stored(Struct, frozen=True):
    """A part of a delivery as it is."""

    profile: str
    digest: str
    state: State
    last_error: str
    created_at: datetime


_TEXT = sa.String()
_INSERT = insert_ignore(outbox)
_OF_DELIVERY = (
    sa.select(outbox)
    .where(outbox.c.delivery_id == bindparam("delivery_id"))
    .order_by(outbox.c.part)
)
_SHOW = (
    sa.update(outbox)
    .where(
        outbox.c.delivery_id == bindparam("of_delivery"),
        outbox.c.part == 1,
        outbox.c.version == bindparam("seen_version"),
    )
    .values(
        payload=bindparam("new_payload", type_=sa.JSON()),
        version=outbox.c.version + 1,
        attempts=0,
        due_since=bindparam("now", type_=UtcTime()),
        next_attempt_at=bindparam("now", type_=UtcTime()),
        # What is being sent goes on; its sender sees the new version and edits.
        state=sa.case((outbox.c.state == State.SENDING, State.SENDING), else_=State.PENDING),
    )
)
_MESSAGE_ID = sa.select(outbox.c.platform_message_id).where(
    outbox.c.delivery_id == bindparam("delivery_id"), outbox.c.part == 1
)
_of_account = (
    outbox.c.platform == bindparam("of_platform"),
    outbox.c.account_id == bindparam("of_account"),
)
_of_chat = (*_of_account, outbox.c.chat_id == bindparam("chat_id"))
_DELIVERY = sa.select(outbox.c.delivery_id).where(
    *_of_chat,
    outbox.c.platform_message_id == bindparam("message_id"),
)
_IN_CHAT = sa.select(outbox.c.sequence).where(
    *_of_chat, outbox.c.delivery_id == bindparam("delivery_id")
)
_FIRST_OF_CHAT = (
    sa.select(sa.func.min(outbox.c.sequence))
    .where(*_of_account, outbox.c.state == State.PENDING)
    .group_by(outbox.c.chat_id)
)
_WAITING_CHATS = sa.select(outbox.c.chat_id, outbox.c.next_attempt_at).where(
    outbox.c.sequence.in_(_FIRST_OF_CHAT)
)
_NEXT_OF_CHAT = (
    sa.select(outbox)
    .where(*_of_chat, outbox.c.state == State.PENDING)
    .order_by(outbox.c.sequence)
    .limit(1)
)
_BEGIN = (
    sa.update(outbox)
    .where(outbox.c.sequence == bindparam("of_sequence"))
    .values(state=State.SENDING, attempts=outbox.c.attempts + 1)
)
_SETTLE = (
    sa.update(outbox)
    .where(outbox.c.sequence == bindparam("of_sequence"), outbox.c.state == State.SENDING)
    .values(
        # A newer version has to be shown as well.
        state=sa.case(
            (
                outbox.c.version == bindparam("seen_version"),
                bindparam("new_state", type_=sa.String()),
            ),
            else_=State.PENDING,
        ),
        kind=bindparam("new_kind"),
        uncertain=bindparam("now_uncertain", type_=sa.Boolean()),
        platform_message_id=bindparam("new_message_id"),
        next_attempt_at=bindparam("next", type_=UtcTime()),
        last_error=bindparam("error"),
        sent_at=bindparam("now", type_=UtcTime()),
    )
)
_TAKE_OVER = (
    sa.update(outbox)
    .where(
        *_of_account,
        outbox.c.state == State.SENDING,
        outbox.c.chat_id.not_in(bindparam("busy", expanding=True)),
    )
    .values(
        state=State.PENDING,
        next_attempt_at=bindparam("now", type_=UtcTime()),
        uncertain=sa.or_(
            outbox.c.uncertain,
            sa.and_(outbox.c.kind == Kind.MESSAGE, outbox.c.platform_message_id.is_(None)),
        ),
    )
)
_BACKLOG = sa.select(sa.func.count(), sa.func.min(outbox.c.due_since, type_=UtcTime())).where(
    outbox.c.platform != bindparam("but_platform"),
    outbox.c.state.in_((State.PENDING, State.SENDING)),
)
_FORGET = sa.delete(outbox).where(
    outbox.c.state.in_((State.SENT, State.MARKED_DUPLICATE, State.ABANDONED)),
    outbox.c.sent_at < bindparam("before", type_=UtcTime()),
)


def add(conn: Connection, delivery: Delivery, now: datetime) -> None:
    """Store messages to be sent; those that are stored already are left as they are."""
    rows: list[dict[str, Any]] = [
        {
            **asdict(delivery.address),
            "delivery_id": delivery.id,
            "part": part,
            "kind": delivery.kind,
            "payload": _payload(content),
            "digest": delivery.digest,
            "version": 0,
            "state": State.PENDING,
            "uncertain": False,
            "attempts": 0,
            "due_since": now,
            "next_attempt_at": now,
            "last_error": "",
            "created_at": now,
            "traceparent": delivery.traceparent or None,
        }
        for part, content in enumerate(delivery.contents, delivery.first_part)
    ]
    if rows:
        conn.execute(_INSERT, rows)


def show(conn: Connection, delivery_id: str, content: Content, now: datetime) -> bool:
    """Let the first part of a delivery show something else, once; returns whether it is new."""
    values = {
        "of_delivery": delivery_id,
        "seen_version": 0,
        "new_payload": _payload(content),
        "now": now,
    }
    return conn.execute(_SHOW, values).rowcount > 0


def message_id(conn: Connection, delivery_id: str) -> str | None:
    """The platform's id of a delivery's first part, once it exists there."""
    return conn.execute(_MESSAGE_ID, {"delivery_id": delivery_id}).scalar_one_or_none()


def delivery_of(conn: Connection, address: Address, message_id: str) -> str | None:
    """The delivery that a message of a chat belongs to, while it is kept."""
    values = {**_chat(address), "message_id": message_id}
    return conn.execute(_DELIVERY, values).scalars().first()


def is_in_chat(conn: Connection, address: Address, delivery_id: str) -> bool:
    """Whether a chat has had a delivery, while it is kept."""
    values = {**_chat(address), "delivery_id": delivery_id}
    return conn.execute(_IN_CHAT, values).first() is not None


def _chat(address: Address) -> dict[str, str]:
    return {
        "of_platform": address.platform,
        "of_account": address.account_id,
        "chat_id": address.chat_id,
    }


def find(conn: Connection, delivery_id: str) -> Sequence[Stored]:
    """A delivery's parts, whosever they are; none when it does not exist."""
    return [
        Stored(row.profile, row.digest, State(row.state), row.last_error, row.created_at)
        for row in conn.execute(_OF_DELIVERY, {"delivery_id": delivery_id})
    ]


def waiting_chats(conn: Connection, platform: str, account_id: str) -> Mapping[str, datetime]:
    """The chats for which something waits, and from when on it may be sent."""
    found = conn.execute(_WAITING_CHATS, {"of_platform": platform, "of_account": account_id})
    return {row.chat_id: row.next_attempt_at for row in found}


def begin(
    conn: Connection, platform: str, account_id: str, chat_id: str, now: datetime
) -> Part | None:
    """Mark the next message of a chat as being sent; None when none may be sent yet."""
    chat = {"of_platform": platform, "of_account": account_id, "chat_id": chat_id}
    row = conn.execute(_NEXT_OF_CHAT, chat).one_or_none()
    if row is None or row.next_attempt_at > now:
        return None
    conn.execute(_BEGIN, {"of_sequence": row.sequence})
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
    """Note what came of sending a part, which carries the id, kind and doubt that it has now."""
    conn.execute(
        _SETTLE,
        {
            "of_sequence": part.sequence,
            "seen_version": part.version,
            "new_state": state,
            "new_kind": part.kind,
            "now_uncertain": part.uncertain,
            "new_message_id": part.message_id,
            "next": next_attempt_at or now,
            "error": error,
            "now": now,
        },
    )


def take_over(
    conn: Connection, platform: str, account_id: str, busy: Sequence[str], now: datetime
) -> int:
    """Make what nobody is sending any more pending again; returns how much that was."""
    values = {"of_platform": platform, "of_account": account_id, "busy": busy, "now": now}
    return conn.execute(_TAKE_OVER, values).rowcount


def backlog(conn: Connection, but_platform: str) -> tuple[int, datetime | None]:
    """How many messages wait to be sent, other than to one platform, and since when the oldest."""
    count, oldest = conn.execute(_BACKLOG, {"but_platform": but_platform}).one()
    return count, oldest


def forget(conn: Connection, before: datetime) -> int:
    """Delete what was sent or given up before a time; returns how much."""
    return conn.execute(_FORGET, {"before": before}).rowcount


def part_of(row: sa.Row[Any]) -> Part:
    """A row as the sender takes it."""
    return Part(
        sequence=row.sequence,
        delivery_id=row.delivery_id,
        address=Address(row.profile, row.platform, row.account_id, row.chat_id, row.thread_id),
        kind=Kind(row.kind),
        content=_content(row.payload),
        version=row.version,
        uncertain=row.uncertain,
        attempts=row.attempts,
        message_id=row.platform_message_id,
        due_since=row.due_since,
        traceparent=row.traceparent or "",
    )


def _payload(content: Content) -> dict[str, Any]:
    payload = to_builtins(content)
    if content.attachment is not None:
        del payload["attachment"]["data"]
    return payload


def _content(payload: dict[str, Any]) -> Content:
    buttons = tuple(Button(**button) for button in payload["buttons"])
    file = payload.get("attachment")
    return Content(payload["text"], buttons, None if file is None else Attachment(**file))
