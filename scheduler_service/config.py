"""The scheduler's settings."""

from typing import Annotated

from pydantic import AfterValidator, Field

from scheduler_service.schedule import check_zone
from services.config import ConfigModel, Env, Yaml


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
        int,
        Field(ge=1, le=10_000),
        Yaml("cron.max_parallel_jobs"),
        Env("HERMES_CRON_MAX_PARALLEL"),
    ] = 32
    """Runs whose turns are worked on at one time; further ones wait."""
    misfire_grace_s: Annotated[
        int, Field(ge=0), Yaml("cron.misfire_grace_s"), Env("HERMES_CRON_MISFIRE_GRACE_S")
    ] = 86_400
    """Seconds after which a due time that nobody was awake for is no longer made up for; a job
    that runs only once is always made up for."""


MODELS: tuple[type[ConfigModel], ...] = (SchedulerConfig,)
"""What the scheduler can be configured with."""
