"""Statements over goings back to backups. Each function takes the connection of a transaction."""

from datetime import datetime

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.curator_records import Report
from scheduler_service.storage.curator_runs import has_changed, undo_names
from scheduler_service.storage.curator_schema import roll_back
from services.database import insert_ignore

KEPT = 20
"""Of a profile."""


class RollBack(Struct, frozen=True):
    """To which backup a library is to go back."""

    id: str
    profile: str
    restore_id: str
    """Of the request that began it, which the library knows it by."""
    backup_id: str
    report: Report | None = None
    """What came of it; None while it is not done."""
    is_past: bool = False
    """It was not known to be done when another one was."""

    @property
    def is_over(self) -> bool:
        """Whether it is not to be done, or not again."""
        return self.report is not None or self.is_past


def begin(connection: sa.Connection, wanted: RollBack, now: datetime) -> RollBack:
    """Store it, or return the one that was stored by the same request."""
    values = {
        "id": wanted.id,
        "profile": wanted.profile,
        "restore_id": wanted.restore_id,
        "backup_id": wanted.backup_id,
        "asked_at": now,
    }
    connection.execute(insert_ignore(roll_back).values(values))
    stored = find(connection, wanted.id)
    assert stored is not None
    return stored


def find(connection: sa.Connection, request_id: str) -> RollBack | None:
    """Return what a request has asked for before."""
    return _first(connection, roll_back.c.id == request_id)


def find_open(connection: sa.Connection, profile: str) -> RollBack | None:
    """Return what was asked for a profile last, and is not done.

    Once the curator has changed the library since, that is past: it would take more back than is
    meant.
    """
    is_open = sa.and_(roll_back.c.profile == profile, roll_back.c.finished_at.is_(None))
    latest = connection.execute(
        sa.select(sa.func.max(roll_back.c.asked_at)).where(is_open)
    ).scalar()
    if latest is None or has_changed(connection, profile, latest):
        return None
    return _first(connection, is_open)


def finish(connection: sa.Connection, asked: RollBack, report: Report, now: datetime) -> None:
    """Let jobs use the skills that are there again, once the library has been given them."""
    undo_names(connection, asked.profile, asked.backup_id, now)
    stored = msgspec.json.encode(report).decode()
    this = roll_back.c.restore_id == asked.restore_id
    connection.execute(sa.update(roll_back).where(this).values(finished_at=now, report=stored))
    # What was asked for before it and is not known to be done is past, and not begun anew.
    of_profile = sa.and_(roll_back.c.profile == asked.profile, roll_back.c.finished_at.is_(None))
    connection.execute(sa.update(roll_back).where(of_profile).values(finished_at=now))
    done = sa.select(roll_back.c.id).where(roll_back.c.profile == asked.profile)
    old = done.order_by(roll_back.c.asked_at.desc()).offset(KEPT)
    connection.execute(sa.delete(roll_back).where(roll_back.c.id.in_(old)))


def forget(connection: sa.Connection, refused: RollBack) -> None:
    """Let it be as if it had not been asked for."""
    connection.execute(sa.delete(roll_back).where(roll_back.c.restore_id == refused.restore_id))


def _first(connection: sa.Connection, which: sa.ColumnElement[bool]) -> RollBack | None:
    query = sa.select(roll_back).where(which).order_by(roll_back.c.asked_at.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    report = None if row.report is None else msgspec.json.decode(row.report, type=Report)
    is_past = report is None and row.finished_at is not None
    return RollBack(row.id, row.profile, row.restore_id, row.backup_id, report, is_past)
