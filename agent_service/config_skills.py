"""The settings of the library of skills."""

from typing import Annotated

from pydantic import Field

from agent_service.config_hubs import HubConfig
from services.config import ConfigModel, Env, Yaml


class SkillsConfig(ConfigModel):
    """Skills, which the agent loads when it needs them."""

    bundled: Annotated[bool, Yaml("skills.bundled"), Env("HERMES_SKILLS_BUNDLED")] = True
    """Whether the skills that come with Hermes are copied into each profile's library."""
    hubs: Annotated[tuple[HubConfig, ...], Field(max_length=32), Yaml("skills.hubs")] = ()
    """Where `hermes skills search` looks, each with a `name`, a `url` as `hermes skills install`
    takes it, and `trust`: `trusted` or `community`."""
