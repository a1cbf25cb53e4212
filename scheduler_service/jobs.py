"""Records of jobs and their runs."""

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.options import JobOptions, Overlap
from scheduler_service.schedule.schedule import Schedule, in_zone, next_after, parse, zone_of
from services.database.leases import Lease
from services.redaction.redactor import MASK, Redactor

# A session id has at most 128 characters.
_MAX_NAMED_JOB_ID = 98


class JobKind(StrEnum):
    """The kind of a job."""

    AGENT = "agent"
    """Runs a prompt or a script."""
    CURATOR = "curator"
    """Curates the skills of a profile; one for each profile, not listed with the others."""


class JobState(StrEnum):
    """The state of a job."""

    SCHEDULED = "SCHEDULED"
    COMPLETED = "COMPLETED"
    """It will not run again."""
    PAUSED = "PAUSED"
    """It has no next run until it is resumed."""


class RunState(StrEnum):
    """The state of a run."""

    CLAIMED = "CLAIMED"
    """Its turn has not started, as far as is known, or waits for its next attempt."""
    RUNNING = "RUNNING"
    DELIVERING = "DELIVERING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    """The next run replaced it, or the job was deleted or paused before its turn started."""


OPEN_STATES = (RunState.CLAIMED, RunState.RUNNING, RunState.DELIVERING)


class Origin(Struct, frozen=True):
    """The chat that a job came from, and its default delivery target."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    chat_type: str = ""


class LastRun(Struct, frozen=True):
    """The result of the run that ended last."""

    scheduled_for: datetime
    state: RunState
    error: str = ""
    delivery_error: str = ""


Unattended = Literal["", "deny", "wait", "halt"]


class JobSpec(Struct, frozen=True, omit_defaults=True):
    """The user's definition of a job, stored whole."""

    name: str = ""
    prompt: str = ""
    schedule: str = ""
    time_zone: str = ""
    """As requested; empty: the configured one."""
    origin: Origin | None = None
    sandbox_template: str = ""
    """The template of its sandboxes; empty: the agent's default."""
    unattended: Unattended = ""
    """What happens to calls that need approval: deny, wait or halt; empty: the agent's setting."""
    options: JobOptions = JobOptions()
    denied_commands: tuple[str, ...] = ()
    """Slash commands that its author may not use, and its runs neither."""
    pause_reason: str = ""
    """Why it was imported as paused; empty if it was not, or after a resume."""


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
    """The number of due times that got a run."""
    updated_at: datetime | None = None
    """None if it was never changed."""
    last_run: LastRun | None = None
    kind: JobKind = JobKind.AGENT

    @property
    def pause_reason(self) -> str:
        """Return why it is paused if nobody asked for that; else empty."""
        return self.spec.pause_reason if self.state is JobState.PAUSED else ""

    @property
    def may_overlap(self) -> bool:
        """Return whether its runs may overlap."""
        return self.spec.options.overlap_policy is not Overlap.FORBID


class Attempt(Struct, frozen=True):
    """One attempt at the turn of a run."""

    number: int = 1
    not_before: datetime | None = None
    """The earliest start of the turn."""
    started_at: datetime | None = None


class Run(Struct, frozen=True):
    """A due time of a job or a requested run; its first turn and delivery have the same id."""

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
    """Requested by somebody, not due by the schedule."""
    is_silent: bool = False
    """It had nothing to report."""
    delivery_error: str = ""
    dry_run: bool = False
    """Only reports what it would do; curator only."""


class Context(Struct, frozen=True):
    """The last output of another job; empty if there is none."""

    name: str
    output: str
    families: tuple[str, ...] = ()
    """The kinds of attacks that it looks like."""
    denied: tuple[str, ...] = ()
    """Slash commands that the runs of that job may not use."""


class Claim(Struct, frozen=True):
    """A run held by this scheduler, with its job."""

    job: Job
    lease: Lease
    scheduled_for: datetime
    state: RunState
    output: str = ""
    error: str = ""
    attempt: Attempt = Attempt()
    claimed_at: datetime | None = None
    traceparent: str = ""
    """The span under which its previous holder traced it."""
    dry_run: bool = False

    @property
    def run_id(self) -> str:
        return self.lease.id

    @property
    def turn_id(self) -> str:
        return turn_id_of(self.run_id, self.attempt.number)

    @property
    def session_id(self) -> str:
        return session_id_of(self.job.id, self.run_id, self.scheduled_for, self.attempt)


def turn_id_of(run_id: str, attempt: int) -> str:
    """Return the id of an attempt's turn."""
    return run_id if attempt == 1 else f"{run_id}.{attempt}"


def session_id_of(job_id: str, run_id: str, scheduled_for: datetime, attempt: Attempt) -> str:
    """Return an attempt's session id: due time, and the turn's id for retries and requests."""
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
    """Create a job; `zone` applies unless its schedule names one. Raises ScheduleError."""
    zone = zone_of(spec.schedule, zone)
    schedule = parse(spec.schedule, zone, now)
    due, spec = next_after(schedule, now), replace(spec, time_zone=zone)
    return Job(job_id, profile, spec, schedule, JobState.SCHEDULED, due, now)


def replanned(before: Job, spec: JobSpec, zone: str, now: datetime, *, anew: bool) -> Job:
    """Return the changed job; `anew` parses its schedule as if written now.

    A new zone alone moves only schedules that follow the clock. Raises ScheduleError.
    """
    schedule = before.schedule
    if anew:
        zone = zone_of(spec.schedule, zone)
        schedule = parse(spec.schedule, zone, now)
    elif zone != before.spec.time_zone:
        schedule = in_zone(schedule, spec.schedule, zone)
    # Strictly later than before, as it serves as the version of the job.
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
    return replace(changed, next_run_at=next_run_of(changed, now))


def next_run_of(job: Job, now: datetime) -> datetime | None:
    """Return the first due time from now on; None if there is none."""
    if 0 < job.spec.options.max_runs <= job.run_count:
        return None
    return next_after(job.schedule, now)


def without_secrets(spec: JobSpec, redactor: Redactor) -> JobSpec:
    """Redact secrets from a job before it is stored."""
    script = redactor.redact_program(spec.options.script)
    return replace(
        spec,
        name=redactor.redact(spec.name),
        prompt=redactor.redact(spec.prompt),
        options=replace(spec.options, script=script),
    )


def notes_on(spec: JobSpec) -> tuple[str, ...]:
    """Return warnings about redacted secrets in a job; the same if asked again."""
    notes = list[str]()
    # The default name is the beginning of the prompt.
    what, text = ("prompt", spec.prompt) if MASK in spec.prompt else ("name", spec.name)
    if (count := text.count(MASK)) > 0:
        notes.append(f"{_counted(count)} taken out of its {what}, where {MASK} stands now")
    if (count := spec.options.script.count(MASK)) > 0:
        notes.append(
            f"{_counted(count)} taken out of its script, which does not run as it was written: "
            "let it use a variable instead, such as $GITHUB_TOKEN, whose value is in "
            "`executor.secrets` (docs/sandboxes.md)"
        )
    return tuple(notes)


def _counted(count: int) -> str:
    return "1 secret was" if count == 1 else f"{count} secrets were"
