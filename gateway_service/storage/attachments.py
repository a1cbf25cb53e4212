"""Files of deliveries in the database, in pieces."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam

from gateway_service.storage.outbox import State
from gateway_service.storage.schema import attachment, attachment_piece, outbox
from services.database import UtcTime


class FileKey(Struct, frozen=True):
    """Which file is meant."""

    delivery_id: str
    profile: str
    sha256: str


_INSERT = sa.insert(attachment)
_INSERT_PIECE = sa.insert(attachment_piece)
_FINISH = (
    sa.update(attachment).where(attachment.c.id == bindparam("of_upload")).values(is_whole=True)
)
_WHOLE = (
    sa.select(attachment.c.id, attachment.c.length_bytes)
    .where(
        attachment.c.delivery_id == bindparam("delivery_id"),
        attachment.c.profile == bindparam("profile"),
        attachment.c.sha256 == bindparam("sha256"),
        attachment.c.is_whole,
    )
    .limit(1)
)
_PIECE = sa.select(attachment_piece.c.data).where(
    attachment_piece.c.attachment_id == bindparam("upload_id"),
    attachment_piece.c.position == bindparam("position"),
)
_is_unsent = sa.exists().where(
    outbox.c.delivery_id == bindparam("delivery_id"),
    outbox.c.state.in_((State.PENDING, State.SENDING)),
)
_SENT = sa.select(attachment.c.id).where(
    attachment.c.delivery_id == bindparam("delivery_id"), ~_is_unsent
)
_LEFT = sa.select(attachment.c.id).where(
    attachment.c.created_at < bindparam("before", type_=UtcTime()),
    attachment.c.delivery_id.not_in(sa.select(outbox.c.delivery_id)),
)
_some: sa.BindParameter[list[str]] = bindparam("some", expanding=True)
_DELETE = sa.delete(attachment).where(attachment.c.id.in_(_some))
_DELETE_STRAYS = sa.delete(attachment_piece).where(
    attachment_piece.c.attachment_id.not_in(sa.select(attachment.c.id))
)
_DELETE_PIECES = sa.delete(attachment_piece).where(attachment_piece.c.attachment_id.in_(_some))


def begin(conn: Connection, upload_id: str, key: FileKey, length_bytes: int, now: datetime) -> None:
    """Make room for a file whose pieces follow."""
    row = {"id": upload_id, "length_bytes": length_bytes, "is_whole": False, "created_at": now}
    conn.execute(_INSERT, {**asdict(key), **row})


def add_piece(conn: Connection, upload_id: str, position: int, data: bytes) -> None:
    """Store the next piece, counted from 0."""
    piece = {"attachment_id": upload_id, "position": position, "data": data}
    conn.execute(_INSERT_PIECE, piece)


def finish(conn: Connection, upload_id: str) -> bool:
    """Note that all pieces are there; False where its delivery was sent meanwhile, without it."""
    return conn.execute(_FINISH, {"of_upload": upload_id}).rowcount == 1


def whole(conn: Connection, key: FileKey) -> tuple[str, int] | None:
    """The upload that a file is in, and its length; None where it is not stored as a whole."""
    row = conn.execute(_WHOLE, asdict(key)).one_or_none()
    return None if row is None else (row.id, row.length_bytes)


def piece(conn: Connection, upload_id: str, position: int) -> bytes | None:
    """A piece of a file; None after the last one."""
    return conn.execute(_PIECE, {"upload_id": upload_id, "position": position}).scalar_one_or_none()


def drop(conn: Connection, upload_ids: Sequence[str]) -> int:
    """Delete what uploads have stored; returns how many there were."""
    conn.execute(_DELETE_PIECES, {"some": upload_ids})
    return conn.execute(_DELETE, {"some": upload_ids}).rowcount


def drop_sent(conn: Connection, delivery_id: str) -> int:
    """Delete the files of a delivery once nothing of it is to be sent any more."""
    return drop(conn, conn.execute(_SENT, {"delivery_id": delivery_id}).scalars().all())


def forget(conn: Connection, before: datetime) -> int:
    """Delete files that were stored before a time and have no delivery, or none any more."""
    # A piece that was on its way when its upload was given up.
    conn.execute(_DELETE_STRAYS)
    return drop(conn, conn.execute(_LEFT, {"before": before}).scalars().all())
