"""The inbox in the database: each event is stored once, and open until answered."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, ValidationError, to_builtins
from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam

from gateway_service.messages import ButtonPress, Event, MessageEvent, Reaction, TurnRequest
from gateway_service.storage.schema import inbox
from services.database import Prepared, UtcTime, insert_ignore
from services.errors import AlreadyExists
from services.validation import convert


class State(StrEnum):
    """State of an event."""

    RECEIVED = "RECEIVED"
    ACCEPTED = "ACCEPTED"
    CLOSED = "CLOSED"
    IGNORED = "IGNORED"
    """The sender may not talk to Hermes."""


OPEN = (State.RECEIVED, State.ACCEPTED)
"""States of events that were not answered yet."""


class Account(Struct, frozen=True):
    """The account of an inbox."""

    profile: str
    platform: str
    account_id: str

    @property
    def id(self) -> str:
        return f"{self.platform}:{self.account_id}"


class Waiting(Struct, frozen=True):
    """An unprocessed event."""

    sequence: int
    event: Event
    received_at: datetime
    others: tuple[int, ...] = ()
    """The sequences of further events that are parts of it."""


_INSERT = Prepared(insert_ignore(inbox))
MESSAGE_ID_CHARS = 255
"""What is kept of a message's id; those of mails may be longer, but mails are not edited."""

_ACCEPT = Prepared(
    sa.update(inbox)
    .where(inbox.c.sequence == bindparam("of_sequence"))
    .values(
        state=State.ACCEPTED,
        payload=bindparam("payload"),
        session_id=bindparam("session_id"),
        turn_id=bindparam("turn_id"),
    )
)
_WAITING = Prepared(
    sa.select(inbox)
    .where(
        inbox.c.platform == bindparam("of_platform"),
        inbox.c.account_id == bindparam("of_account"),
        inbox.c.state == State.RECEIVED,
        inbox.c.session_key == bindparam("of_key"),
    )
    .order_by(inbox.c.sequence)
    .limit(bindparam("most", type_=sa.Integer()))
)
_CLOSE = Prepared(
    sa.update(inbox)
    .where(inbox.c.turn_id == bindparam("of_turn"), inbox.c.state == State.ACCEPTED)
    .values(state=State.CLOSED, closed_at=bindparam("now", type_=UtcTime()))
)


def add(
    conn: Connection, account: Account, events: Mapping[str, tuple[str, Event]], now: datetime
) -> int:
    """Store events by id, with their session keys; return how many are new."""
    new = 0
    for event_id, (session_key, event) in events.items():
        message_id = event.message_id if isinstance(event, MessageEvent) and not event.edits else ""
        row = {
            **asdict(account),
            "event_id": event_id,
            "message_id": message_id[:MESSAGE_ID_CHARS] or None,
            "session_key": session_key,
            "payload": _without(to_builtins(event), "event_id"),
            "state": State.RECEIVED,
            "received_at": now,
        }
        new += _INSERT.run(conn, row)
    return new


def accept_client(
    conn: Connection, turn: TurnRequest, event_id: str, session_key: str, now: datetime
) -> tuple[TurnRequest, bool]:
    """Store a client's message with its turn; return the stored turn, and whether it is open."""
    row = {
        "platform": turn.source.platform,
        "account_id": "",
        "event_id": event_id,
        "message_id": None,
        "profile": turn.profile,
        "session_key": session_key,
        "payload": _payload(turn),
        "state": State.ACCEPTED,
        "session_id": turn.session_id,
        "turn_id": turn.turn_id,
        "received_at": now,
    }
    if _INSERT.run(conn, row):
        return turn, True
    is_event = (inbox.c.platform == turn.source.platform, inbox.c.event_id == event_id)
    known = conn.execute(sa.select(inbox).where(*is_event)).one()
    if known.profile != turn.profile:
        raise AlreadyExists(f"message {event_id} was used before")
    return _turn(known), known.state == State.ACCEPTED


def accept(conn: Connection, waiting: Waiting, turn: TurnRequest, now: datetime) -> None:
    """Store an event's turn, with all that is needed to start it again."""
    _ACCEPT.run(
        conn,
        {
            "of_sequence": waiting.sequence,
            "payload": _payload(turn),
            "session_id": turn.session_id,
            "turn_id": turn.turn_id,
        },
    )
    for sequence in waiting.others:
        _update(conn, sequence, state=State.CLOSED, closed_at=now)


def update(conn: Connection, turn: TurnRequest) -> None:
    """Store what was added to an accepted turn."""
    its_row = sa.update(inbox).where(inbox.c.turn_id == turn.turn_id)
    conn.execute(its_row.values(payload=_payload(turn)))


def accepted(conn: Connection, platform: str, account_id: str) -> Sequence[tuple[str, TurnRequest]]:
    """Return unanswered turns with their session keys, oldest first."""
    query = sa.select(inbox).where(*_of_account(platform, account_id, State.ACCEPTED))
    return [(row.session_key, _turn(row)) for row in conn.execute(query.order_by(inbox.c.sequence))]


def lanes(conn: Connection, platform: str, account_id: str) -> Sequence[str]:
    """Return the session keys with unprocessed events."""
    received = _of_account(platform, account_id, State.RECEIVED)
    return conn.execute(sa.select(inbox.c.session_key).where(*received).distinct()).scalars().all()


def waiting_of_lane(
    conn: Connection, platform: str, account_id: str, session_key: str, limit: int
) -> Sequence[Waiting]:
    """Return unprocessed events of a session key, oldest first."""
    lane = {"of_platform": platform, "of_account": account_id, "of_key": session_key}
    found: list[Waiting] = []
    for row in _WAITING.rows(conn, {**lane, "most": limit}):
        try:
            found.append(Waiting(row.sequence, _event(row), row.received_at))
        except ValidationError:  # perhaps a newer replica has stored it
            if not found:
                raise
            break
    return found


def last_message(conn: Connection, ids: tuple[str, str, str], before: int) -> tuple[str, str]:
    """Return the platform's id of the last message before an event, and its text; empty texts if
    there is none. `ids` are the platform, account and session key."""
    platform, account_id, session_key = ids
    query = (
        sa.select(inbox)
        .where(
            inbox.c.session_key == session_key,
            inbox.c.platform == platform,
            inbox.c.account_id == account_id,
            inbox.c.message_id.is_not(None),
            inbox.c.sequence < before,
        )
        .order_by(inbox.c.sequence.desc())
        .limit(1)
    )
    row = conn.execute(query).one_or_none()
    return ("", "") if row is None else (row.message_id, row.payload.get("text", ""))


def take_edit(conn: Connection, sequence: int, message_id: str) -> None:
    """Note that a new version of a message is taken as a message."""
    _update(conn, sequence, message_id=message_id)


def live_turns(conn: Connection, profile: str, session_id: str) -> Sequence[str]:
    """Return the session's unfinished turns, oldest first."""
    query = (
        sa.select(inbox.c.turn_id)
        .where(
            inbox.c.state == State.ACCEPTED,
            inbox.c.session_id == session_id,
            inbox.c.profile == profile,
        )
        .order_by(inbox.c.sequence)
    )
    return conn.execute(query).scalars().all()


def find_open(conn: Connection, turn_id: str) -> TurnRequest | None:
    """Return a turn whose message is unanswered."""
    query = sa.select(inbox).where(inbox.c.turn_id == turn_id, inbox.c.state == State.ACCEPTED)
    row = conn.execute(query).one_or_none()
    return None if row is None else _turn(row)


def close(conn: Connection, turn_id: str, now: datetime) -> None:
    """Note that a turn's message was answered."""
    _CLOSE.run(conn, {"of_turn": turn_id, "now": now})


def close_event(conn: Connection, waiting: Waiting, now: datetime) -> None:
    """Note that an event without a turn was answered."""
    for sequence in (waiting.sequence, *waiting.others):
        _update(conn, sequence, state=State.CLOSED, closed_at=now)


def ignore(conn: Connection, sequence: int, now: datetime) -> None:
    """Ignore an event, and delete its content."""
    _update(conn, sequence, state=State.IGNORED, closed_at=now, payload=dict[str, str]())


def forget(conn: Connection, before: datetime) -> int:
    """Delete events that were closed before a time; return their number."""
    return conn.execute(sa.delete(inbox).where(inbox.c.closed_at < before)).rowcount


def _update(conn: Connection, sequence: int, **values: Any) -> None:
    conn.execute(sa.update(inbox).where(inbox.c.sequence == sequence).values(**values))


def _of_account(platform: str, account_id: str, state: State) -> tuple[sa.ColumnElement[bool], ...]:
    return inbox.c.platform == platform, inbox.c.account_id == account_id, inbox.c.state == state


_KINDS: Mapping[str, type[Event]] = {"press_id": ButtonPress, "emoji": Reaction}
"""Kinds of events by a field that only they have."""
_COLUMNS = ("turn_id", "profile", "session_id")


def _payload(turn: TurnRequest) -> dict[str, Any]:
    return _without(to_builtins(turn), *_COLUMNS)


def _turn(row: sa.Row[Any]) -> TurnRequest:
    return convert({**row.payload, **{name: getattr(row, name) for name in _COLUMNS}}, TurnRequest)


def _event(row: sa.Row[Any]) -> Event:
    kind = next((kind for name, kind in _KINDS.items() if name in row.payload), MessageEvent)
    return convert({**row.payload, "event_id": row.event_id}, kind)


def _without(payload: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the payload without what has columns of its own."""
    return {name: value for name, value in payload.items() if name not in names}
