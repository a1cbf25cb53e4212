"""Jobs and their runs, as the scheduler thinks of them."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from scheduler_service.schedule import Schedule
from services.leases import Lease


class JobState(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "SCHEDULED"
    """It has a next run."""
    COMPLETED = "COMPLETED"
    """It has run for the last time."""


class RunState(StrEnum):
    """Where a run is in its life."""

    CLAIMED = "CLAIMED"
    """Its turn has not started, as far as is known."""
    RUNNING = "RUNNING"
    """Its turn is under way."""
    DELIVERING = "DELIVERING"
    """Its turn has ended and the output is being delivered."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    """Its turn failed, or its output could not be delivered."""


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


class Job(Struct, frozen=True):
    """A prompt that runs on a schedule."""

    id: str
    profile: str
    name: str
    prompt: str
    schedule_text: str
    time_zone: str
    schedule: Schedule
    origin: Origin | None
    state: JobState
    next_run_at: datetime | None
    created_at: datetime
    sandbox_template: str = ""
    """Of which its runs' sandboxes are made; empty is what the agent's policy says."""
    unattended: str = ""
    """What becomes of calls that a person would have to allow: deny, wait or halt; empty is what
    the agent has configured."""


class Run(Struct, frozen=True):
    """One due time of a job; its id is also its turn's and its delivery's."""

    id: str
    job_id: str
    scheduled_for: datetime
    state: RunState
    claimed_at: datetime
    finished_at: datetime | None
    output: str
    error: str


class Claim(Struct, frozen=True):
    """A run in the hands of this scheduler, with the job whose prompt it runs."""

    job: Job
    lease: Lease
    scheduled_for: datetime
    state: RunState
    output: str = ""
    error: str = ""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.lease.id
