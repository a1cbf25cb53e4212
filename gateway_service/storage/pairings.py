"""Pairings in the database: people who ask to be let in, and those who were."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam

from gateway_service.storage.schema import pairing, pairing_lock
from services.database import Prepared, insert_ignore, upsert


class Person(Struct, frozen=True):
    """A person on a platform."""

    profile: str
    platform: str
    user_id: str


class Pairing(Struct, frozen=True):
    """A request to be let in, or what came of it."""

    person: Person
    user_name: str
    account_id: str = ""
    """The account that the person wrote to; empty for people of an older home."""
    chat_id: str = ""
    salt: bytes = b""
    code_digest: bytes = b""
    requested_at: datetime | None = None
    expires_at: datetime | None = None
    """When the code becomes invalid."""
    approved_at: datetime | None = None
    """None while nobody has approved it."""
    approved_by: str = ""
    is_admin: bool = False

    def is_valid(self, now: datetime) -> bool:
        """Return whether the code may still be used."""
        return self.expires_at is not None and now < self.expires_at


_KEY = ("profile", "platform", "user_id")
_row = pairing.c
_FIND = Prepared(
    sa.select(pairing).where(
        _row.profile == bindparam("of_profile"),
        _row.platform == bindparam("of_platform"),
        _row.user_id == bindparam("of_user"),
    )
)
_FIELDS = tuple(column.name for column in pairing.columns if column.name not in _KEY)
_PUT = upsert(pairing, _KEY, _FIELDS)
_ADD_LOCK = insert_ignore(pairing_lock)


def find(conn: Connection, person: Person) -> Pairing | None:
    """Return a person's request or approval, which may have expired."""
    given = {
        "of_profile": person.profile,
        "of_platform": person.platform,
        "of_user": person.user_id,
    }
    row = _FIND.rows(conn, given).one_or_none()
    return None if row is None else _pairing(row)


def list_pairings(conn: Connection, profile: str) -> Sequence[Pairing]:
    """Return all requests and approvals, the oldest first."""
    query = sa.select(pairing).filter_by(profile=profile)
    found = map(_pairing, conn.execute(query))
    return sorted(found, key=lambda each: (each.approved_at is not None, *_key_of(each)))


def put(conn: Connection, given: Pairing) -> None:
    """Store a request or an approval in place of the person's earlier one."""
    row = asdict(given) | asdict(given.person)
    del row["person"]
    conn.execute(_PUT, row)


def delete(conn: Connection, person: Person) -> bool:
    """Delete a request or an approval; return whether there was one."""
    return conn.execute(sa.delete(pairing).filter_by(**asdict(person))).rowcount > 0


def forget(conn: Connection, now: datetime) -> int:
    """Delete requests that nobody has approved in time; return their number."""
    is_over = (_row.approved_at.is_(None), _row.expires_at <= now)
    return conn.execute(sa.delete(pairing).where(*is_over)).rowcount


def lock_attempts(conn: Connection, profile: str) -> tuple[int, datetime | None]:
    """Return the number and latest time of wrong codes, locked until the transaction ends."""
    conn.execute(_ADD_LOCK, {"profile": profile, "wrong_count": 0})
    query = sa.select(pairing_lock).filter_by(profile=profile).with_for_update()
    row = conn.execute(query).one()
    return row.wrong_count, row.tried_at


def note_attempts(
    conn: Connection, profile: str, wrong_count: int, tried_at: datetime | None
) -> None:
    """Store the number of wrong codes."""
    of_profile = sa.update(pairing_lock).filter_by(profile=profile)
    conn.execute(of_profile.values(wrong_count=wrong_count, tried_at=tried_at))


def _pairing(row: sa.Row[Any]) -> Pairing:
    person = Person(row.profile, row.platform, row.user_id)
    return Pairing(person, **{name: getattr(row, name) for name in _FIELDS})


def _key_of(given: Pairing) -> tuple[str, str]:
    at = given.approved_at or given.requested_at
    return (at.isoformat() if at else "", given.person.user_id)
