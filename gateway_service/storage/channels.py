"""Channels in the database: chats that Hermes was addressed in, home channels, and moved chats."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from gateway_service.messages import ChatMove, Source
from gateway_service.storage.inbox import Account
from gateway_service.storage.outbox import Kind, State
from gateway_service.storage.schema import (
    channel,
    chat_session,
    home_channel,
    home_import,
    inbox,
    outbox,
)
from services.database import Prepared, insert_ignore, upsert

NAME_CHARS = 100
_CHAT = 4
"""The place of a chat's id in a session key."""


class Place(Struct, frozen=True):
    """A chat or thread of a platform."""

    platform: str
    chat_id: str
    thread_id: str = ""

    def __str__(self) -> str:
        """Return the target that means it."""
        return ":".join(filter(None, (self.platform, self.chat_id, self.thread_id)))


class Channel(Struct, frozen=True):
    """A chat or thread, and what people call it."""

    place: Place
    name: str
    """May be empty."""
    chat_type: str
    seen_at: datetime
    """When it was last used."""


_KEY = ("profile", "platform", "chat_id", "thread_id")
_SEE = Prepared(upsert(channel, _KEY, ("chat_type", "seen_at")))
_SEE_NAMED = Prepared(upsert(channel, _KEY, ("name", "chat_type", "seen_at")))
_ADD = insert_ignore(channel)
_CHOOSE = upsert(home_channel, ("profile", "platform"), ("chat_id", "thread_id", "chosen_at"))


def see(conn: Connection, profile: str, source: Source, now: datetime) -> None:
    """Note that somebody who may talk to Hermes used a chat."""
    if source.target:
        return  # a program, which cannot be sent messages
    name = source.chat_name or (source.user_name if source.chat_type == "dm" else "")
    # Threads come and go; what people name is the channel.
    is_thread = source.chat_type == "thread"
    place = Place(source.platform, source.chat_id, "" if is_thread else source.thread_id)
    chat_type = "channel" if is_thread else source.chat_type
    row = _values(profile, Channel(place, clean_name(name), chat_type, now))
    (_SEE_NAMED if row["name"] else _SEE).run(conn, row)


def add(conn: Connection, profile: str, found: Channel) -> None:
    """Store a channel, unless it is known."""
    conn.execute(_ADD, _values(profile, found))


def list_channels(conn: Connection, profile: str) -> Sequence[Channel]:
    """Return all channels of a profile, the last used first."""
    query = sa.select(channel).filter_by(profile=profile).order_by(channel.c.seen_at.desc())
    return [
        Channel(
            Place(row.platform, row.chat_id, row.thread_id), row.name, row.chat_type, row.seen_at
        )
        for row in conn.execute(query)
    ]


def forget_direct(conn: Connection, profile: str, place: Place) -> None:
    """Forget the direct chat of a person who was shut out."""
    key = {"profile": profile, "platform": place.platform, "chat_id": place.chat_id}
    if conn.execute(sa.delete(channel).filter_by(**key, chat_type="dm")).rowcount:
        conn.execute(sa.delete(home_channel).filter_by(**key))


def choose_home(conn: Connection, profile: str, place: Place, now: datetime) -> None:
    """Make a chat the home channel of its platform."""
    conn.execute(_CHOOSE, {"profile": profile, **asdict(place), "chosen_at": now})


def clear_home(conn: Connection, profile: str, platform: str) -> bool:
    """Forget the home channel that was chosen; return whether there was one."""
    chosen = sa.delete(home_channel).filter_by(profile=profile, platform=platform)
    return conn.execute(chosen).rowcount > 0


def chosen_homes(conn: Connection, profile: str) -> Mapping[str, Place]:
    """Return the home channels that were chosen in chats, by platform."""
    rows = conn.execute(sa.select(home_channel).filter_by(profile=profile))
    return {row.platform: Place(row.platform, row.chat_id, row.thread_id) for row in rows}


def follow(conn: Connection, account: Account, move: ChatMove) -> None:
    """Move a chat's sessions, messages and home channel to its new id; idempotent."""
    for key in _keys(conn, account, move.old_chat_id):
        parts = key.split(":")
        parts[_CHAT] = move.new_chat_id
        new_key = ":".join(parts)
        is_taken = sa.select(chat_session).filter_by(profile=account.profile, session_key=new_key)
        for table in (chat_session, inbox):
            if table is inbox or conn.execute(is_taken).first() is None:
                of_chat = sa.update(table).filter_by(profile=account.profile, session_key=key)
                conn.execute(of_chat.values(session_key=new_key))
    _move(conn, account.profile, account.platform, move)
    is_created = outbox.c.platform_message_id.is_not(None)
    conn.execute(
        sa.update(outbox)
        .filter_by(
            platform=account.platform, account_id=account.account_id, chat_id=move.old_chat_id
        )
        .values(
            chat_id=move.new_chat_id,
            state=sa.case((outbox.c.state == State.SENDING, State.PENDING), else_=outbox.c.state),
            # Ids of messages begin anew there; what has one is not edited, but sent as a message.
            kind=sa.case((is_created, Kind.MESSAGE), else_=outbox.c.kind),
            platform_message_id=sa.null(),
        )
    )


def _keys(conn: Connection, account: Account, chat_id: str) -> set[str]:
    found: set[str] = set()
    for table in (chat_session, inbox):
        named = table.c.session_key.like(f"agent:main:{account.platform}:%:{chat_id}%")
        query = sa.select(table.c.session_key).where(table.c.profile == account.profile, named)
        found.update(conn.execute(query.distinct()).scalars())
    return {key for key in found if key.split(":")[_CHAT] == chat_id}


def _move(conn: Connection, profile: str, platform: str, moved: ChatMove) -> None:
    """Note that a chat has another id."""
    of_platform = {"profile": profile, "platform": platform}
    old = {**of_platform, "chat_id": moved.old_chat_id}
    if conn.execute(sa.select(channel).filter_by(**old)).first() is not None:
        new = sa.delete(channel).filter_by(**of_platform, chat_id=moved.new_chat_id)
        conn.execute(new)
    for table in (channel, home_channel):
        conn.execute(sa.update(table).filter_by(**old).values(chat_id=moved.new_chat_id))


def begin_import(conn: Connection, profile: str, now: datetime) -> bool:
    """Note that an older home is imported; False if that was done before."""
    row = {"profile": profile, "imported_at": now}
    return conn.execute(insert_ignore(home_import).values(row)).rowcount > 0


def clean_name(name: str) -> str:
    """Return a name on one line, without what could mislead."""
    plain = "".join(each if each.isprintable() else " " for each in name)
    return " ".join(plain.split())[:NAME_CHARS]


def _values(profile: str, found: Channel) -> dict[str, object]:
    named = {"name": found.name, "chat_type": found.chat_type, "seen_at": found.seen_at}
    return {"profile": profile, **asdict(found.place), **named}
