"""The agent's settings of the runs of jobs."""

from typing import Annotated

from pydantic import Field

from services.config import ConfigModel, Env, Yaml


class JobsConfig(ConfigModel):
    """How runs of jobs begin."""

    script_timeout_s: Annotated[
        float,
        Field(ge=1, le=86_400),
        Yaml("cron.script_timeout_s"),
        Env("HERMES_CRON_SCRIPT_TIMEOUT_S"),
    ] = 600.0
    """Seconds after which the script of a job's run is killed, and the run has failed."""
