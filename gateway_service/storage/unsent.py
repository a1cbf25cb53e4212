"""Messages that were not sent yet: files that wait for their answer, questions that are over."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.messages import Content
from gateway_service.storage.outbox import State, payload_of
from gateway_service.storage.schema import outbox
from services.database import Prepared

_FILES = ":files"
_HELD = Prepared(
    sa.select(outbox)
    .where(outbox.c.delivery_id == bindparam("of_delivery"), outbox.c.state == State.HELD)
    .order_by(outbox.c.part)
)


def files_of(turn_id: str) -> str:
    """Return the id of the delivery of an answer's files."""
    return f"{turn_id}{_FILES}"


def answer_of(delivery_id: str) -> str:
    """Return the turn whose answer a delivery's files belong to; empty if there is none."""
    return delivery_id.removesuffix(_FILES) if delivery_id.endswith(_FILES) else ""


def release(conn: Connection, delivery_id: str, now: datetime) -> None:
    """Queue what was held, after everything that is queued by now."""
    rows = _HELD.rows(conn, {"of_delivery": delivery_id}).mappings().all()
    due = {"state": State.PENDING, "due_since": now, "next_attempt_at": now}
    for row in rows:
        conn.execute(sa.delete(outbox).where(outbox.c.sequence == row["sequence"]))
        again = {name: value for name, value in row.items() if name != "sequence"} | due
        conn.execute(sa.insert(outbox).values(again))


def withdraw(conn: Connection, delivery_id: str, content: Content) -> bool:
    """Replace a message that was not sent yet; return False, once, if it was.

    Either way it counts as changed.
    """
    is_first = (outbox.c.delivery_id == delivery_id, outbox.c.part == 1)
    row = conn.execute(sa.select(outbox).where(*is_first)).one_or_none()
    if row is None or row.version:
        return True
    is_unsent = row.state == State.PENDING and not row.attempts
    new = {"payload": payload_of(content)} if is_unsent else {}
    conn.execute(sa.update(outbox).where(*is_first).values(version=row.version + 1, **new))
    return is_unsent
