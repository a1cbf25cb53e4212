"""Statements over the curator's jobs, of which each profile has one, and the skills of other jobs.

Each function takes the connection of a transaction that has begun.
"""

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
"""After an attempt that has not moved the profile's last run on, before the next one."""


class Renamed(Struct, frozen=True):
    """What the skills of a job were called before a run, and after it."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Outcome(Struct, frozen=True):
    """The output of a run, as it is stored."""

    report: Report
    renamed: Mapping[str, Renamed] = {}
    """By job."""


def job_id_of(profile: str) -> str:
    """The id of a profile's curator, which nobody can give a job."""
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
    """Store a run for anybody to take up, and return what is stored under its id.

    It is for a due time, or where somebody asks for it, for none. Its epoch is above the highest
    that the library knows: schedulers of other databases may have changed it.

    None where its due time has had its run, which a stale look at the library does not know, and
    while another run is under way; FailedPrecondition then to a person who asks.
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
    # Those who work on it are above all who have worked on an earlier one.
    row |= {"epoch": max(connection.execute(highest).scalar() or 0, found.epoch)}
    row |= {"dry_run": dry_run, "is_requested": due is None}
    return runs.insert_run(connection, row)


def check_idle(connection: sa.Connection, profile: str) -> None:
    """Raise FailedPrecondition while a run of a profile is under way."""
    if _is_busy(connection, profile):
        raise FailedPrecondition("the curator is at work on these skills; try again later")


def _is_busy(connection: sa.Connection, profile: str) -> bool:
    is_open = sa.select(run.c.id).where(run.c.job_id == job_id_of(profile), open_run).limit(1)
    return connection.execute(is_open).scalar() is not None


def _job(connection: sa.Connection, profile: str, now: datetime) -> str:
    """Make the profile's curator where there is none, and hold it until the transaction ends."""
    curator = Job(
        id=job_id_of(profile),
        kind=JobKind.CURATOR,
        profile=profile,
        spec=JobSpec(name="curator", time_zone="UTC"),
        # When it is due depends on its library and on talk, which the agent knows.
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
    """Store what came of a run, and let jobs use what their skills are part of now.

    Raises Fenced before anything else, so that an owner that was taken over changes no job.
    """
    leases.fence(connection, claim.lease)
    renamed = _rename(connection, claim.job.profile, report.merged, now)
    output = msgspec.json.encode(Outcome(report, renamed)).decode()
    ended = replace(claim, state=RunState.DELIVERING, output=output, error="")
    runs.save(connection, leases, ended)
    return ended


def report_of(output: str) -> Report | None:
    """The report in the output of a run; None where there is none."""
    return decode(output, Outcome).report if output else None


def skills_of_jobs(connection: sa.Connection, profile: str) -> list[str]:
    """Return the skills that jobs of a profile use, by their names alone."""
    specs = (jobs.spec_of_text(row.spec) for row in connection.execute(_jobs_of(profile)))
    return sorted({_bare(name) for spec in specs for name in spec.options.skills})


def skills_of_jobs_held(connection: sa.Connection, leases: LeaseTable, claim: Claim) -> list[str]:
    """Return the skills that jobs use at this moment, to the holder of a run; raises Fenced."""
    leases.fence(connection, claim.lease)
    return skills_of_jobs(connection, claim.job.profile)


def undo_names(connection: sa.Connection, profile: str, backup_id: str, now: datetime) -> None:
    """Call the skills of jobs again what they were called before a backup was made.

    Jobs whose skills somebody has changed since are left alone. FailedPrecondition while a run is
    under way.
    """
    # One that has begun since might give jobs names of skills that are undone.
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
) -> Mapping[str, Renamed]:
    """Let jobs use what their skills are part of now."""
    renamed: dict[str, Renamed] = {}
    for row in connection.execute(_jobs_of(profile).with_for_update()).all():
        before = jobs.spec_of_text(row.spec).options.skills
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
