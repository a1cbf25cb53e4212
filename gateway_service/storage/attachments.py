"""Files of deliveries in the database."""

from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from gateway_service.storage.outbox import State
from gateway_service.storage.schema import attachment, outbox
from services.database import insert_ignore


class FileKey(Struct, frozen=True):
    """Identifies a file."""

    delivery_id: str
    profile: str
    sha256: str


def put(conn: Connection, key: FileKey, data: bytes, now: datetime) -> None:
    """Store a file; an existing one stays as it is."""
    row = {**asdict(key), "length_bytes": len(data), "data": data, "created_at": now}
    conn.execute(insert_ignore(attachment).values(row))


def find_length(conn: Connection, key: FileKey) -> int | None:
    """Return a file's length, or None."""
    query = sa.select(attachment.c.length_bytes).filter_by(**asdict(key))
    return conn.execute(query).scalar_one_or_none()


def read_data(conn: Connection, key: FileKey) -> bytes | None:
    """Return a file's content, or None."""
    query = sa.select(attachment.c.data).filter_by(**asdict(key))
    return conn.execute(query).scalar_one_or_none()


def drop_sent(conn: Connection, delivery_id: str) -> int:
    """Delete the files of a delivery that has nothing left to send."""
    is_unsent = sa.exists().where(
        outbox.c.delivery_id == delivery_id, outbox.c.state.in_((State.PENDING, State.SENDING))
    )
    sent = sa.delete(attachment).where(attachment.c.delivery_id == delivery_id, ~is_unsent)
    return conn.execute(sent).rowcount


def forget(conn: Connection, before: datetime) -> int:
    """Delete files that were stored before a time and have no delivery."""
    left = sa.delete(attachment).where(
        attachment.c.created_at < before,
        attachment.c.delivery_id.not_in(sa.select(outbox.c.delivery_id)),
    )
    return conn.execute(left).rowcount
