"""What a job is once it is asked for, or asked to be another; pure functions."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from scheduler_service.errors import ScheduleError
from scheduler_service.jobs import Job, JobRequest, JobState
from scheduler_service.schedule import in_zone, next_after, parse, zone_of


def planned(request: JobRequest, zone: str, now: datetime) -> Job:
    """The job that is asked for, in a zone unless its schedule names one; raises ScheduleError."""
    zone = zone_of(request.schedule, zone)
    schedule = parse(request.schedule, zone, now)
    return Job(
        id=request.id,
        profile=request.profile,
        name=request.name,
        prompt=request.prompt,
        schedule_text=request.schedule,
        time_zone=zone,
        schedule=schedule,
        origin=request.origin,
        state=JobState.PAUSED if request.is_paused else JobState.SCHEDULED,
        next_run_at=None if request.is_paused else next_after(schedule, now),
        created_at=now,
        sandbox_template=request.sandbox_template,
        unattended=request.unattended,
        options=request.options,
        denied=request.denied,
    )


def replanned(before: Job, request: JobRequest, zone: str, now: datetime, *, anew: bool) -> Job:
    """The job as it is asked for by then; `anew` reads its schedule as if it was written now.

    Another zone alone moves what goes by the clock. Raises ScheduleError.
    """
    # Later than it was: it is what another change is told from this one by.
    at_least = before.updated_at or before.created_at
    changed = replace(
        before,
        name=request.name,
        prompt=request.prompt,
        origin=request.origin,
        sandbox_template=request.sandbox_template,
        unattended=request.unattended,
        options=request.options,
        denied=request.denied,
        updated_at=max(now, at_least + timedelta(microseconds=1)),
    )
    if anew:
        zone = zone_of(request.schedule, zone)
        schedule = parse(request.schedule, zone, now)
        changed = replace(
            changed,
            schedule_text=request.schedule,
            time_zone=zone,
            schedule=schedule,
            run_count=0,
        )
    elif zone != before.time_zone:
        schedule = in_zone(before.schedule, before.schedule_text, before.time_zone, zone)
        changed = replace(changed, time_zone=zone, schedule=schedule)
    if before.state is JobState.PAUSED:
        return replace(changed, next_run_at=None)
    next_run_at = following(changed, now)
    if changed.schedule != before.schedule and before.next_run_at and next_run_at is None:
        raise ScheduleError(before.schedule_text, f"in {zone} that is in the past")
    return replace(changed, next_run_at=next_run_at)


def following(job: Job, now: datetime) -> datetime | None:
    """When a job that is due from now on is due first; None if it never is."""
    if 0 < job.options.max_runs <= job.run_count:
        return None
    return next_after(job.schedule, now)
