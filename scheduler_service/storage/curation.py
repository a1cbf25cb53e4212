"""Statements over curator jobs, one for each profile; each runs in an open transaction."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.curation import Curation, Report
from scheduler_service.jobs import Claim, Job, JobKind, JobSpec, JobState, Run, RunState
from scheduler_service.schedule.schedule import Once
from scheduler_service.storage import jobs, runs
from scheduler_service.storage.schema import job, of_agent, open_run, run
from services.database.leases import LeaseTable
from services.errors import FailedPrecondition
from services.validation import decode

REST = timedelta(days=1)
"""The pause after an attempt that did not advance the profile's last run."""


class RenamedSkills(Struct, frozen=True):
    """The skills of a job before and after a run."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Outcome(Struct, frozen=True):
    """The stored output of a run."""

    report: Report
    renamed: Mapping[str, RenamedSkills] = {}


def job_id_of(profile: str) -> str:
    """Return the id of a profile's curator, which no user's job can have."""
    return f"curator/{profile}"


def begin(
    connection: sa.Connection,
    found: Curation,
    run_id: str,
    now: datetime,
    *,
    due: datetime | None = None,
    dry_run: bool = False,
) -> Run | None:
    """Store a run to be taken up; return what is stored under its id.

    Its epoch is above the highest that the library knows, as another database's schedulers may have
    changed it. None if the due time had its run or another run is open; for a requested run, an
    open run raises FailedPrecondition.
    """
    if (stored := runs.find_run(connection, run_id)) is not None:
        return stored
    job_id = _job(connection, found.profile, now)
    if due is None:
        check_idle(connection, found.profile)
    elif _is_busy(connection, found.profile):
        return None
    scheduled_for = due or now
    made = runs.list_runs(connection, job_id, runs.KEPT_RUNS_PER_JOB)
    latest = next((each for each in made if not each.dry_run), None)
    if due is not None and latest is not None:
        had_it = latest.scheduled_for >= due
        if (had_it or latest.error) and now - (latest.finished_at or now) < REST:
            return None
        scheduled_for = now if had_it else due
    highest = sa.select(sa.func.max(run.c.epoch)).where(run.c.job_id == job_id)
    row = runs.row_of(run_id, job_id, scheduled_for, now)
    # Every new holder must be above all earlier ones.
    row |= {"epoch": max(connection.execute(highest).scalar() or 0, found.epoch)}
    row |= {"dry_run": dry_run, "is_requested": due is None}
    return runs.insert_run(connection, row)


def check_idle(connection: sa.Connection, profile: str) -> None:
    """Raise FailedPrecondition while a run of a profile is open."""
    if _is_busy(connection, profile):
        raise FailedPrecondition("the curator is at work on these skills; try again later")


def _is_busy(connection: sa.Connection, profile: str) -> bool:
    is_open = sa.select(run.c.id).where(run.c.job_id == job_id_of(profile), open_run).limit(1)
    return connection.execute(is_open).scalar() is not None


def _job(connection: sa.Connection, profile: str, now: datetime) -> str:
    curator = Job(
        id=job_id_of(profile),
        kind=JobKind.CURATOR,
        profile=profile,
        spec=JobSpec(name="curator", time_zone="UTC"),
        # Its due time depends on the library and on use, which only the agent knows.
        schedule=Once(now),
        state=JobState.COMPLETED,
        next_run_at=None,
        created_at=now,
    )
    jobs.insert_job(connection, curator, "")
    jobs.lock_jobs(connection, [curator.id])
    return curator.id


def end_run(
    connection: sa.Connection, leases: LeaseTable, claim: Claim, report: Report, now: datetime
) -> Claim:
    """Store a run's result and rename merged skills in jobs; raises Fenced before any change."""
    leases.fence(connection, claim.lease)
    renamed = _rename(connection, claim.job.profile, report.merged, now)
    output = msgspec.json.encode(Outcome(report, renamed)).decode()
    ended = replace(claim, state=RunState.DELIVERING, output=output, error="")
    runs.save(connection, leases, ended)
    return ended


def report_of(output: str) -> Report | None:
    """Return the report in the output of a run, or None."""
    return decode(output, Outcome).report if output else None


def skills_of_jobs(connection: sa.Connection, profile: str) -> list[str]:
    """Return the skills that a profile's jobs use, without categories."""
    specs = (jobs.spec_of_text(row.spec) for row in connection.execute(_jobs_of(profile)))
    return sorted({_bare(name) for spec in specs for name in spec.options.skills})


def skills_of_jobs_held(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> list[str]:
    """Return the skills that jobs use, if the claim still holds its run; raises Fenced."""
    leases.fence(connection, claim.lease)
    return skills_of_jobs(connection, claim.job.profile)


def undo_names(connection: sa.Connection, profile: str, backup_id: str, now: datetime) -> None:
    """Restore the skill names in jobs from before a backup, except in jobs changed since.

    Raises FailedPrecondition while a run is open.
    """
    # A run that began since might give jobs names of skills that are undone.
    jobs.lock_jobs(connection, [job_id_of(profile)])
    check_idle(connection, profile)
    made = runs.list_runs(connection, job_id_of(profile), runs.KEPT_RUNS_PER_JOB)
    for each in made:
        outcome = decode(each.output, Outcome) if each.output else None
        if outcome is None or not outcome.renamed or outcome.report.backup_id < backup_id:
            continue
        for job_id, names in outcome.renamed.items():
            _set_names(connection, profile, job_id, names.after, names.before, now)
        output = msgspec.json.encode(Outcome(outcome.report)).decode()
        connection.execute(sa.update(run).where(run.c.id == each.id).values(output=output))


def _rename(
    connection: sa.Connection, profile: str, names: Mapping[str, str], now: datetime
) -> Mapping[str, RenamedSkills]:
    renamed: dict[str, RenamedSkills] = {}
    for row in connection.execute(_jobs_of(profile).with_for_update()).all():
        before = jobs.spec_of_text(row.spec).options.skills
        after = tuple(dict.fromkeys(names.get(_bare(name), name) for name in before))
        if after != before and _set_names(connection, profile, row.id, before, after, now):
            renamed[row.id] = RenamedSkills(before, after)
    return renamed


def _bare(name: str) -> str:
    return name.rpartition("/")[2]


def _set_names(
    connection: sa.Connection,
    profile: str,
    job_id: str,
    before: Collection[str],
    after: tuple[str, ...],
    now: datetime,
) -> bool:
    """Set a job's skills; False if they are not the expected ones."""
    of_job = _jobs_of(profile).where(job.c.id == job_id).with_for_update()
    row = connection.execute(of_job).one_or_none()
    spec = None if row is None else jobs.spec_of_text(row.spec)
    if spec is None or spec.options.skills != before:
        return False
    spec = replace(spec, options=replace(spec.options, skills=after))
    values = {"spec": jobs.to_text(spec), "updated_at": now}
    connection.execute(sa.update(job).where(job.c.id == job_id).values(values))
    return True


def _jobs_of(profile: str) -> sa.Select[Any, Any]:
    return sa.select(job.c.id, job.c.spec).where(
        job.c.profile == profile, job.c.deleted_at.is_(None), of_agent
    )
