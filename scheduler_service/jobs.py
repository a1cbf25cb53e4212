"""Jobs and their runs, as the scheduler thinks of them."""

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.errors import ScheduleError
from scheduler_service.options import JobOptions, Overlap
from scheduler_service.schedule.schedule import Schedule, in_zone, next_after, parse, zone_of
from services.database.leases import Lease
from services.redaction.redactor import MASK, Redactor

# A session's id holds 128 characters.
_MAX_NAMED_JOB_ID = 98


class JobKind(StrEnum):
    """What the runs of a job do."""

    AGENT = "agent"
    """They ask the agent something, or run a script."""
    CURATOR = "curator"
    """They look after the skills of a profile, which has one such job; people see it elsewhere."""


class JobState(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "SCHEDULED"
    """It has a next run."""
    COMPLETED = "COMPLETED"
    """It has run for the last time."""
    PAUSED = "PAUSED"
    """It has no next run until it is resumed."""


class RunState(StrEnum):
    """Where a run is in its life."""

    CLAIMED = "CLAIMED"
    """Its turn has not started, as far as is known, or waits for its next attempt."""
    RUNNING = "RUNNING"
    """Its turn is under way."""
    DELIVERING = "DELIVERING"
    """Its turn has ended and the output is being delivered."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """Its turn failed, or its output could not be delivered."""
    CANCELLED = "CANCELLED"
    """The job's next run took its place, or the job was deleted or paused before its turn had
    started."""


OPEN_STATES = (RunState.CLAIMED, RunState.RUNNING, RunState.DELIVERING)
"""States of a run that somebody has to go on with."""


class Origin(Struct, frozen=True):
    """The chat that a job came from and that its output goes to."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    chat_type: str = ""


class LastRun(Struct, frozen=True):
    """How the run that ended last went."""

    scheduled_for: datetime
    state: RunState
    error: str = ""
    delivery_error: str = ""


Unattended = Literal["", "deny", "wait", "halt"]


class JobSpec(Struct, frozen=True, omit_defaults=True):
    """What people say of a job, as its message has it; stored whole."""

    name: str = ""
    prompt: str = ""
    schedule: str = ""
    time_zone: str = ""
    """Asked for, empty means the configured one."""
    origin: Origin | None = None
    sandbox_template: str = ""
    """Of which its runs' sandboxes are made; empty is what the agent's policy says."""
    unattended: Unattended = ""
    """What becomes of calls that a person would have to allow: deny, wait or halt; empty is what
    the agent has configured."""
    options: JobOptions = JobOptions()
    denied_commands: tuple[str, ...] = ()
    """Slash commands that its runs do nothing of: what whoever asked for it may not say."""
    pause_reason: str = ""
    """Why it came paused from a file; empty where it did not, or was resumed."""


class Job(Struct, frozen=True):
    """A prompt that runs on a schedule."""

    id: str
    profile: str
    spec: JobSpec
    schedule: Schedule
    state: JobState
    next_run_at: datetime | None
    created_at: datetime
    run_count: int = 0
    """Due times that got a run."""
    updated_at: datetime | None = None
    """None where it was never changed."""
    last_run: LastRun | None = None
    kind: JobKind = JobKind.AGENT

    @property
    def pause_reason(self) -> str:
        """Why it is paused, where that was nobody's wish; empty where it was, or it is not."""
        why = (self.spec.pause_reason, self.spec.options.unplaced)
        return "; ".join(filter(None, why)) if self.state is JobState.PAUSED else ""

    @property
    def may_overlap(self) -> bool:
        """Whether its runs need not wait for one another."""
        return self.spec.options.overlap_policy is not Overlap.FORBID


class Attempt(Struct, frozen=True):
    """The turn that a run makes, or makes again after it failed."""

    number: int = 1
    not_before: datetime | None = None
    """Its turn does not start earlier."""
    started_at: datetime | None = None
    """When its turn was started."""


class Run(Struct, frozen=True):
    """One due time of a job, or one run that was asked for; its id is also that of its first turn
    and of its first delivery."""

    id: str
    job_id: str
    scheduled_for: datetime
    state: RunState
    claimed_at: datetime
    finished_at: datetime | None
    output: str
    error: str
    attempt: Attempt = Attempt()
    is_requested: bool = False
    """Somebody asked for it; else it was due."""
    is_silent: bool = False
    """It had nothing to say."""
    delivery_error: str = ""
    dry_run: bool = False
    """Of the curator: it only says what it would do."""


class Context(Struct, frozen=True):
    """What another job came to last; empty where it has not come to anything."""

    name: str
    output: str
    families: tuple[str, ...] = ()
    """The attacks that it looks like."""
    denied: tuple[str, ...] = ()
    """Slash commands that are denied to the runs of that job."""


class Claim(Struct, frozen=True):
    """A run in the hands of this scheduler, with the job whose prompt it runs."""

    job: Job
    lease: Lease
    scheduled_for: datetime
    state: RunState
    output: str = ""
    error: str = ""
    attempt: Attempt = Attempt()
    claimed_at: datetime | None = None
    traceparent: str = ""
    """Names the span that whoever held it before has traced it by."""
    dry_run: bool = False

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.lease.id

    @property
    def turn_id(self) -> str:
        """The id of its attempt's turn."""
        return turn_id_of(self.run_id, self.attempt.number)

    @property
    def session_id(self) -> str:
        """The session of its attempt's turn, which has no other."""
        return session_id_of(self.job.id, self.run_id, self.scheduled_for, self.attempt)


def turn_id_of(run_id: str, attempt: int) -> str:
    """The id of an attempt's turn."""
    return run_id if attempt == 1 else f"{run_id}.{attempt}"


def session_id_of(job_id: str, run_id: str, scheduled_for: datetime, attempt: Attempt) -> str:
    """The session of an attempt's turn, which no other turn has.

    A due time names it. Where something else may fall into the same second, which are further
    attempts and what a person asked for, the turn does as well.
    """
    if len(job_id) > _MAX_NAMED_JOB_ID:
        job_id = hashlib.sha256(job_id.encode()).hexdigest()[:32]
    is_first = attempt.number == 1
    at = scheduled_for if is_first else attempt.not_before or scheduled_for
    name = f"cron_{job_id}_{at:%Y%m%d_%H%M%S}"
    if is_first and not scheduled_for.microsecond:
        return name
    turn_id = turn_id_of(run_id, attempt.number)
    return f"{name}_{hashlib.sha256(turn_id.encode()).hexdigest()[:8]}"


def planned(job_id: str, profile: str, spec: JobSpec, zone: str, now: datetime) -> Job:
    """The job that is asked for, in a zone unless its schedule names one; raises ScheduleError."""
    zone = zone_of(spec.schedule, zone)
    schedule = parse(spec.schedule, zone, now)
    due, spec = next_after(schedule, now), replace(spec, time_zone=zone)
    return Job(job_id, profile, spec, schedule, JobState.SCHEDULED, due, now)


def replanned(before: Job, spec: JobSpec, zone: str, now: datetime, *, anew: bool) -> Job:
    """The job as it is asked for by then; `anew` reads its schedule as if it was written now.

    Another zone alone moves what goes by the clock. Raises ScheduleError.
    """
    schedule, old_zone = before.schedule, before.spec.time_zone
    if anew:
        zone = zone_of(spec.schedule, zone)
        schedule = parse(spec.schedule, zone, now)
    elif zone != old_zone:
        schedule = in_zone(schedule, spec.schedule, old_zone, zone)
    # Later than it was: it is what another change is told from this one by.
    at_least = before.updated_at or before.created_at
    changed = replace(
        before,
        spec=replace(spec, time_zone=zone),
        schedule=schedule,
        run_count=0 if anew else before.run_count,
        updated_at=max(now, at_least + timedelta(microseconds=1)),
    )
    if before.state is JobState.PAUSED:
        return changed
    next_run_at = next_run_of(changed, now)
    if schedule != before.schedule and before.next_run_at and next_run_at is None:
        raise ScheduleError(spec.schedule, f"in {zone} that is in the past")
    return replace(changed, next_run_at=next_run_at)


def next_run_of(job: Job, now: datetime) -> datetime | None:
    """When a job that is due from now on is due first; None if it never is."""
    if 0 < job.spec.options.max_runs <= job.run_count:
        return None
    return next_after(job.schedule, now)


def without_secrets(spec: JobSpec, redactor: Redactor) -> JobSpec:
    """What is asked for as it is stored, shown and run."""
    script = redactor.redact_program(spec.options.script)
    return replace(
        spec,
        name=redactor.redact(spec.name),
        prompt=redactor.redact(spec.prompt),
        options=replace(spec.options, script=script),
    )


def notes_on(spec: JobSpec) -> tuple[str, ...]:
    """What whoever has put secrets into a job is to know of it, also asked again."""
    notes = list[str]()
    # A name that nobody gives it is the beginning of its prompt.
    what, text = ("prompt", spec.prompt) if MASK in spec.prompt else ("name", spec.name)
    if (count := text.count(MASK)) > 0:
        notes.append(f"{_counted(count)} taken out of its {what}, where {MASK} stands now")
    if (count := spec.options.script.count(MASK)) > 0:
        notes.append(
            f"{_counted(count)} taken out of its script, which does not run as it was written: "
            "let it use a variable instead, such as $GITHUB_TOKEN, whose value is in "
            "`executor.secrets` (docs/network.md)"
        )
    return tuple(notes)


def _counted(count: int) -> str:
    return "1 secret was" if count == 1 else f"{count} secrets were"
