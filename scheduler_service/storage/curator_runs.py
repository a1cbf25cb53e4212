"""Statements over the curator's runs. Each function takes the connection of a transaction.

What changes a run is fenced by its lease, so that an owner that was taken over writes nothing.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.curator_records import CuratorRun, Report, RunState
from scheduler_service.options import JobOptions, options_of_text, options_to_text
from scheduler_service.storage.curator_schema import curator_run
from scheduler_service.storage.schema import job
from services.database import insert_ignore, is_one_of
from services.errors import FailedPrecondition
from services.leases import EPOCHS, Lease, LeaseTable, Owner

LEASE_S = 6.0
KEPT_RUNS = 100
"""Of a profile."""

_OPEN = is_one_of(curator_run.c.state, (RunState.OPEN,))
_BY_ID = sa.select(curator_run).where(curator_run.c.id == sa.bindparam("run_id"))


_earlier = curator_run.alias()
_ABOVE_EARLIER = (
    sa.update(curator_run)
    .where(curator_run.c.id == sa.bindparam("run_id"))
    .values(
        epoch=sa.select(sa.func.max(_earlier.c.epoch))
        .where(_earlier.c.profile == curator_run.c.profile)
        .scalar_subquery()
    )
)


class Renamed(Struct, frozen=True):
    """What the skills of a job were called before a run, and after it."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def run_leases(ttl_s: float = LEASE_S) -> LeaseTable:
    """Return the leases of runs."""
    return LeaseTable(curator_run, claimable=_OPEN, ttl_s=ttl_s)


def insert_run(
    connection: sa.Connection,
    run_id: str,
    profile: str,
    now: datetime,
    *,
    dry_run: bool,
    after_epoch: int = 0,
) -> bool:
    """Store a run for anybody to work on; False where its id is taken or the profile has one.

    Its owners' epochs are above those of all runs of the profile before it, and above
    `after_epoch`, which the library knows: schedulers of other databases may have changed it.
    FailedPrecondition where that is none, as a database has no room for those above it.
    """
    if not 0 <= after_epoch < EPOCHS:
        raise FailedPrecondition(
            f"the skills of {profile} say that they were changed in epoch {after_epoch}, which "
            "there never was; remove last_run_epoch from their .curator_state"
        )
    values = {
        "id": run_id,
        "profile": profile,
        "dry_run": dry_run,
        "state": RunState.OPEN,
        "epoch": after_epoch,
        "version": 0,
        "created_at": now,
        "error": "",
    }
    if connection.execute(insert_ignore(curator_run).values(values)).rowcount != 1:
        return False
    # Not with the insert: only now all other runs have ended and their epochs are known.
    connection.execute(_ABOVE_EARLIER, {"run_id": run_id})
    return True


def find_run(connection: sa.Connection, run_id: str) -> CuratorRun | None:
    """Return a run of any profile."""
    row = connection.execute(_BY_ID, {"run_id": run_id}).one_or_none()
    return None if row is None else _run_of(row)


def latest_run(connection: sa.Connection, profile: str) -> CuratorRun | None:
    """Return a profile's run that was begun last."""
    return next(iter(list_runs(connection, profile, 1)), None)


def list_runs(connection: sa.Connection, profile: str, limit: int) -> list[CuratorRun]:
    """Return a profile's runs, the latest first."""
    rows = connection.execute(_of_profile(profile).limit(limit))
    return [_run_of(row) for row in rows]


def has_changed(connection: sa.Connection, profile: str, since: datetime) -> bool:
    """Whether a run that ended after a moment has changed the library; then it made a backup."""
    ended = sa.and_(curator_run.c.finished_at > since, curator_run.c.report.is_not(None))
    runs = map(_run_of, connection.execute(_of_profile(profile).where(ended)))
    return any(run.report is not None and run.report.backup_id for run in runs)


def take(
    connection: sa.Connection, leases: LeaseTable, owner: Owner, limit: int
) -> list[tuple[Lease, CuratorRun]]:
    """Claim open runs that nobody holds."""
    taken = {lease.id: lease for lease in leases.claim_free(connection, owner, limit)}
    if not taken:
        return []
    rows = connection.execute(sa.select(curator_run).where(curator_run.c.id.in_(list(taken))))
    return [(taken[row.id], _run_of(row)) for row in rows]


def keep_plan(
    connection: sa.Connection, leases: LeaseTable, lease: Lease, plan: str, failure: str
) -> None:
    """Store what the model has answered, or why it has not; raises Fenced."""
    leases.fence(connection, lease, plan=plan, plan_failure=failure)


def keep_reason(connection: sa.Connection, leases: LeaseTable, lease: Lease, reason: str) -> None:
    """Store why a run does not go on at the moment; raises Fenced."""
    leases.fence(connection, lease, error=reason)


def close_run(
    connection: sa.Connection,
    leases: LeaseTable,
    lease: Lease,
    outcome: Report | str,
    now: datetime,
) -> None:
    """End a run with its report, or with why it failed; raises Fenced."""
    row = connection.execute(_BY_ID, {"run_id": lease.id}).one()
    if isinstance(outcome, str):
        values: dict[str, object] = {"state": RunState.FAILED, "error": outcome}
    else:
        report = msgspec.json.encode(outcome).decode()
        values = {"state": RunState.SUCCEEDED, "report": report, "error": ""}
    # Before anything else, so that who was taken over changes no job.
    leases.release(connection, lease, finished_at=now, **values)
    if isinstance(outcome, Report) and not outcome.dry_run and outcome.merged:
        renamed = _rename(connection, row.profile, outcome.merged, now)
        stored = msgspec.json.encode(renamed).decode()
        of_run = curator_run.c.id == lease.id
        connection.execute(sa.update(curator_run).where(of_run).values(renamed=stored))
    oldest = _of_profile(row.profile).offset(KEPT_RUNS).with_only_columns(curator_run.c.id)
    old = connection.execute(oldest).scalars().all()
    connection.execute(sa.delete(curator_run).where(curator_run.c.id.in_(old), ~_OPEN))


def skills_of_jobs(connection: sa.Connection, profile: str) -> frozenset[str]:
    """Return the skills that jobs of a profile use, by their names alone."""
    rows = connection.execute(_jobs_with_options(profile))
    return frozenset(_bare(name) for row in rows for name in options_of_text(row.options).skills)


def skills_of_jobs_held(
    connection: sa.Connection, leases: LeaseTable, lease: Lease, profile: str
) -> frozenset[str]:
    """Return the skills that jobs use at this moment, to who holds a run; raises Fenced."""
    leases.fence(connection, lease)
    return skills_of_jobs(connection, profile)


def undo_names(connection: sa.Connection, profile: str, backup_id: str, now: datetime) -> None:
    """Call the skills of jobs again what they were called before a backup was made.

    Jobs whose skills somebody has changed since are left alone.
    """
    for row in connection.execute(_of_profile(profile)).all():
        report = _run_of(row).report
        if row.renamed is None or report is None or report.backup_id < backup_id:
            continue
        renamed = msgspec.json.decode(row.renamed, type=dict[str, Renamed])
        for job_id, names in renamed.items():
            _set_names(connection, profile, job_id, names.after, names.before, now)
        of_run = curator_run.c.id == row.id
        connection.execute(sa.update(curator_run).where(of_run).values(renamed=None))


def _rename(
    connection: sa.Connection, profile: str, names: Mapping[str, str], now: datetime
) -> Mapping[str, Renamed]:
    """Let jobs use what their skills are part of now."""
    renamed: dict[str, Renamed] = {}
    for row in connection.execute(_jobs_with_options(profile).with_for_update()).all():
        before = options_of_text(row.options).skills
        after = tuple(dict.fromkeys(names.get(_bare(name), name) for name in before))
        if after != before and _set_names(connection, profile, row.id, before, after, now):
            renamed[row.id] = Renamed(before, after)
    return renamed


def _bare(name: str) -> str:
    """A skill's name, which jobs may say with its category."""
    return name.rpartition("/")[2]


def _set_names(
    connection: sa.Connection,
    profile: str,
    job_id: str,
    before: Collection[str],
    after: tuple[str, ...],
    now: datetime,
) -> bool:
    """Let a job use other skills; False where it does not use those from before."""
    of_job = _jobs_with_options(profile).where(job.c.id == job_id).with_for_update()
    row = connection.execute(of_job).one_or_none()
    if row is None or options_of_text(row.options).skills != before:
        return False
    options: JobOptions = msgspec.structs.replace(options_of_text(row.options), skills=after)
    values = {"options": options_to_text(options), "updated_at": now}
    connection.execute(sa.update(job).where(job.c.id == job_id).values(values))
    return True


def _jobs_with_options(profile: str) -> sa.Select[Any, Any]:
    return sa.select(job.c.id, job.c.options).where(
        job.c.profile == profile, job.c.deleted_at.is_(None), job.c.options.is_not(None)
    )


def _of_profile(profile: str) -> sa.Select[Any]:
    return (
        sa.select(curator_run)
        .where(curator_run.c.profile == profile)
        .order_by(curator_run.c.created_at.desc(), curator_run.c.id.desc())
    )


def _run_of(row: sa.Row[Any]) -> CuratorRun:
    report = None if row.report is None else msgspec.json.decode(row.report, type=Report)
    return CuratorRun(
        id=row.id,
        profile=row.profile,
        dry_run=row.dry_run,
        state=RunState(row.state),
        created_at=row.created_at,
        finished_at=row.finished_at,
        plan=row.plan,
        plan_failure=row.plan_failure or "",
        report=report,
        error=row.error,
    )
