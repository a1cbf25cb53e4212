"""Files of deliveries in the database, in pieces."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection

from gateway_service.storage.outbox import State
from gateway_service.storage.schema import attachment, attachment_piece, outbox


class FileKey(Struct, frozen=True):
    """Which file is meant."""

    delivery_id: str
    profile: str
    sha256: str


def begin(conn: Connection, upload_id: str, key: FileKey, length_bytes: int, now: datetime) -> None:
    """Make room for a file whose pieces follow."""
    row = {"id": upload_id, "length_bytes": length_bytes, "is_whole": False, "created_at": now}
    conn.execute(sa.insert(attachment), {**asdict(key), **row})


def add_piece(conn: Connection, upload_id: str, position: int, data: bytes) -> None:
    """Store the next piece, counted from 0."""
    piece = {"attachment_id": upload_id, "position": position, "data": data}
    conn.execute(sa.insert(attachment_piece), piece)


def finish(conn: Connection, upload_id: str) -> bool:
    """Note that all pieces are there; False where its delivery was sent meanwhile, without it."""
    update = sa.update(attachment).where(attachment.c.id == upload_id).values(is_whole=True)
    return conn.execute(update).rowcount == 1


def whole(conn: Connection, key: FileKey) -> tuple[str, int] | None:
    """The upload that a file is in, and its length; None where it is not stored as a whole."""
    query = sa.select(attachment).filter_by(**asdict(key)).where(attachment.c.is_whole).limit(1)
    row = conn.execute(query).one_or_none()
    return None if row is None else (row.id, row.length_bytes)


def piece(conn: Connection, upload_id: str, position: int) -> bytes | None:
    """A piece of a file; None after the last one."""
    query = sa.select(attachment_piece.c.data).where(
        attachment_piece.c.attachment_id == upload_id, attachment_piece.c.position == position
    )
    return conn.execute(query).scalar_one_or_none()


def drop(conn: Connection, upload_ids: Sequence[str]) -> int:
    """Delete what uploads have stored; returns how many there were."""
    of_uploads = attachment_piece.c.attachment_id.in_(upload_ids)
    conn.execute(sa.delete(attachment_piece).where(of_uploads))
    return conn.execute(sa.delete(attachment).where(attachment.c.id.in_(upload_ids))).rowcount


def drop_sent(conn: Connection, delivery_id: str) -> int:
    """Delete the files of a delivery once nothing of it is to be sent any more."""
    is_unsent = sa.exists().where(
        outbox.c.delivery_id == delivery_id, outbox.c.state.in_((State.PENDING, State.SENDING))
    )
    sent = sa.select(attachment.c.id).where(attachment.c.delivery_id == delivery_id, ~is_unsent)
    return drop(conn, conn.execute(sent).scalars().all())


def forget(conn: Connection, before: datetime) -> int:
    """Delete files that were stored before a time and have no delivery, or none any more."""
    # A piece that was on its way when its upload was given up.
    strays = attachment_piece.c.attachment_id.not_in(sa.select(attachment.c.id))
    conn.execute(sa.delete(attachment_piece).where(strays))
    left = sa.select(attachment.c.id).where(
        attachment.c.created_at < before,
        attachment.c.delivery_id.not_in(sa.select(outbox.c.delivery_id)),
    )
    return drop(conn, conn.execute(left).scalars().all())
