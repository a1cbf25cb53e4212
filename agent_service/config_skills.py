"""The settings of the library of skills."""

from typing import Annotated

from services.config import ConfigModel, Env, Yaml


class SkillsConfig(ConfigModel):
    """Skills, which the agent loads when it needs them."""

    bundled: Annotated[bool, Yaml("skills.bundled"), Env("HERMES_SKILLS_BUNDLED")] = True
    """Whether the skills that come with Hermes are copied into each profile's library."""
