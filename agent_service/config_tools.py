"""The settings of what models are offered."""

from typing import Annotated

from pydantic import AfterValidator, Field

from agent_service.toolsets import Lists, ToolsetPolicy, known_toolset
from services.config import ConfigModel, Yaml

Toolset = Annotated[str, AfterValidator(known_toolset)]


class ToolsConfig(ConfigModel):
    """Which toolsets models are not offered, though nothing that they need is missing."""

    disabled: Annotated[tuple[Toolset, ...], Yaml("tools.disabled")] = ()
    """Toolsets that are off everywhere."""
    profiles: Annotated[dict[str, tuple[Toolset, ...]], Yaml("tools.profiles")] = Field(
        default_factory=dict[str, tuple[Toolset, ...]]
    )
    """By profile, toolsets that are off in it as well."""
    platforms: Annotated[dict[str, tuple[Toolset, ...]], Yaml("tools.platforms")] = Field(
        default_factory=dict[str, tuple[Toolset, ...]]
    )
    """By platform, such as `telegram` or `cli`, toolsets that are off for messages from there."""
    only_profiles: Annotated[dict[str, tuple[Toolset, ...]], Yaml("tools.only.profiles")] = Field(
        default_factory=dict[str, tuple[Toolset, ...]]
    )
    """By profile, all toolsets that are on in it, but for those that are off."""
    only_platforms: Annotated[dict[str, tuple[Toolset, ...]], Yaml("tools.only.platforms")] = Field(
        default_factory=dict[str, tuple[Toolset, ...]]
    )
    """By platform, all toolsets that are on for messages from there, but for those that are off."""

    @property
    def policy(self) -> ToolsetPolicy:
        """The same as turns are held to."""
        off = Lists(self.profiles, self.platforms)
        return ToolsetPolicy(self.disabled, off, Lists(self.only_profiles, self.only_platforms))
