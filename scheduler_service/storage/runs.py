"""Statements over runs. Each function takes the connection of a transaction that has begun.

What changes a run is fenced by its lease, so that an owner that was taken over writes nothing.
"""

from datetime import datetime

import sqlalchemy as sa

from scheduler_service.jobs import Claim, Run, RunState
from scheduler_service.storage.schema import open_run, run
from services.leases import LeaseTable

KEPT_RUNS_PER_JOB = 50


def start_run(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> None:
    """Note that the run's turn has started; raises Fenced."""
    leases.fence(connection, claim.lease, state=RunState.RUNNING)


def end_run(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> None:
    """Store what the claim says its turn came to, for delivery; raises Fenced."""
    leases.fence(
        connection,
        claim.lease,
        state=RunState.DELIVERING,
        output=claim.output,
        error=claim.error,
    )


def close_run(
    connection: sa.Connection, leases: LeaseTable, claim: Claim, error: str, now: datetime
) -> None:
    """End the run, and forget its job's oldest ones; raises Fenced."""
    state = RunState.FAILED if error else RunState.SUCCEEDED
    leases.release(connection, claim.lease, state=state, error=error, finished_at=now)
    of_job = run.c.job_id == claim.job.id
    oldest_kept = (
        sa.select(run.c.scheduled_for)
        .where(of_job)
        .order_by(run.c.scheduled_for.desc())
        .offset(KEPT_RUNS_PER_JOB - 1)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(sa.delete(run).where(of_job, ~open_run, run.c.scheduled_for < oldest_kept))


def error_before(connection: sa.Connection, claim: Claim) -> str:
    """Return how the job's run before this one failed; empty if it did not or there is none."""
    query = (
        sa.select(run.c.error)
        .where(run.c.job_id == claim.job.id, run.c.scheduled_for < claim.scheduled_for)
        .order_by(run.c.scheduled_for.desc())
        .limit(1)
    )
    return connection.execute(query).scalar() or ""


def list_runs(connection: sa.Connection, job_id: str, limit: int) -> list[Run]:
    """Return a job's runs, the latest first."""
    query = (
        sa.select(run)
        .where(run.c.job_id == job_id)
        .order_by(run.c.scheduled_for.desc())
        .limit(limit)
    )
    return [
        Run(
            id=row.id,
            job_id=row.job_id,
            scheduled_for=row.scheduled_for,
            state=RunState(row.state),
            claimed_at=row.claimed_at,
            finished_at=row.finished_at,
            output=row.output,
            error=row.error,
        )
        for row in connection.execute(query)
    ]
