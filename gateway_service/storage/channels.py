"""Channels in the database: chats that Hermes was addressed in, and home channels."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from gateway_service.messages import ChatMove, Source
from gateway_service.storage.schema import channel, home_channel, home_import
from services.database import Prepared, insert_ignore, upsert

NAME_CHARS = 100


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


def move(conn: Connection, profile: str, platform: str, moved: ChatMove) -> None:
    """Note that a chat has another id."""
    for table in (channel, home_channel):
        of_chat = {"profile": profile, "platform": platform}
        if table is channel:
            known = sa.delete(table).filter_by(**of_chat, chat_id=moved.new_chat_id)
            is_old = sa.exists().where(
                table.c.profile == profile,
                table.c.platform == platform,
                table.c.chat_id == moved.old_chat_id,
            )
            conn.execute(known.where(is_old))
        old = sa.update(table).filter_by(**of_chat, chat_id=moved.old_chat_id)
        conn.execute(old.values(chat_id=moved.new_chat_id))


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
