"""Turns that nobody wants any more: those of cancelled runs that may have started all the same.

A run is cancelled in the transaction that says so, and its turn is stopped after that, by whoever
comes to it, as often as it takes: whoever has cancelled it may die before. Each function takes the
connection of a transaction that has begun.
"""

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.jobs import turn_id_of
from scheduler_service.storage.schema import job, run
from services.database import db_now

START_S = 15.0
"""So long after a run was cancelled its turn may still start: it takes longer than the call."""
STOPPED_AT_ONCE = 500

ANY_START = sa.case((run.c.epoch > 0, db_now(START_S)), else_=sa.null())
"""Until when the turn of a run that is cancelled may start; never where nobody has held it."""

_UNWANTED = (
    sa.select(
        job.c.profile, run.c.id, run.c.attempt, (run.c.stop_until < db_now()).label("is_over")
    )
    .join(job, run.c.job_id == job.c.id)
    .where(run.c.stop_until.is_not(None))
    .order_by(run.c.stop_until)
    .limit(STOPPED_AT_ONCE)
)
_STOPPED = (
    sa.update(run)
    .where(run.c.id.in_(sa.bindparam("run_ids", expanding=True)))
    .values(stop_until=None)
)


class Unwanted(Struct, frozen=True):
    """A turn that is to be stopped."""

    run_id: str
    turn_id: str
    profile: str
    is_over: bool
    """It cannot start any more; where there is none by now, there will be none."""


def unwanted(connection: sa.Connection) -> Sequence[Unwanted]:
    """Return turns that are to be stopped, those first that have been for longest."""
    rows = connection.execute(_UNWANTED)
    return [
        Unwanted(row.id, turn_id_of(row.id, row.attempt), row.profile, bool(row.is_over))
        for row in rows
    ]


def unwanted_of(connection: sa.Connection, job_id: str) -> Sequence[str]:
    """Return the ids of a job's turns that are to be stopped."""
    query = sa.select(run.c.id, run.c.attempt).where(
        run.c.job_id == job_id, run.c.stop_until.is_not(None)
    )
    return [turn_id_of(row.id, row.attempt) for row in connection.execute(query)]


def stopped(connection: sa.Connection, run_ids: Collection[str]) -> None:
    """Note that the turns of runs need not be stopped any more."""
    connection.execute(_STOPPED, {"run_ids": run_ids})
