"""The scheduler's settings."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from scheduler_service.schedule.schedule import check_zone
from services.config.settings import ConfigModel, Env, Yaml, section


class SchedulerConfig(ConfigModel):
    """How jobs are run."""

    time_zone: Annotated[
        str | None,
        AfterValidator(lambda name: name and check_zone(name)),
        Yaml("timezone"),
        Env("HERMES_TIMEZONE"),
    ] = None
    """IANA time zone of schedules that name none; unset means this machine's."""
    max_parallel_runs: Annotated[
        int, Field(ge=1, le=10_000), Yaml("cron.max_parallel_jobs"), Env("HERMES_CRON_MAX_PARALLEL")
    ] = 32
    """Maximum number of runs in parallel; further ones wait."""
    misfire_grace_s: Annotated[
        int, Field(ge=0), Yaml("cron.misfire_grace_s"), Env("HERMES_CRON_MISFIRE_GRACE_S")
    ] = 86_400
    """Seconds after which a missed due time is no longer made up for; a job that runs only once is
    always made up for, unless it has a limit of its own."""


@section("curator")
class CuratorConfig(ConfigModel):
    """When the curator looks after libraries of skills."""

    enabled: Annotated[bool, Env("HERMES_CURATOR_ENABLED")] = True
    """Whether the curator runs automatically; `hermes curator run` works in either case."""
    interval_hours: Annotated[float, Field(gt=0, le=87_600)] = 168
    """Hours between its runs, and from its first look at a home to its first run."""
    min_idle_hours: Annotated[float, Field(ge=0, le=8760)] = 2
    """Hours without messages to the agent before a run; jobs do not count."""
    stale_after_days: Annotated[float, Field(gt=0, le=36_500)] = 30
    """Days after which a skill that nobody has used counts as stale."""
    archive_after_days: Annotated[float, Field(gt=0, le=36_500)] = 90
    """Days after which it is archived; not less than `stale_after_days`."""

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.archive_after_days < self.stale_after_days:
            raise ValueError("curator.archive_after_days is less than curator.stale_after_days")
        return self


@section("batch")
class BatchConfig(ConfigModel):
    """How batches are run."""

    pause_s: Annotated[float, Field(gt=0, le=86_400)] = 30
    """Seconds that a batch waits when the model's provider limits calls or does not answer, and
    does not say how long to wait; twice as long each time in a row, up to 15 minutes."""


MODELS: tuple[type[ConfigModel], ...] = (SchedulerConfig, CuratorConfig, BatchConfig)
"""What the scheduler can be configured with."""
