"""The agent's settings of where skills of others come from."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.source import FORMS, parsed
from agent_service.skills.hub.sources import HubSetting
from agent_service.skills.trust import Trust
from services.config import ConfigModel


def _source(text: str) -> str:
    try:
        parsed(text)
    except HubRefused:
        # It is not repeated, as it may hold a password.
        raise ValueError(f"is no source of skills; one is {FORMS}") from None
    return text


class HubConfig(ConfigModel):
    """A place that skills come from."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
    """What it is called in commands."""
    url: Annotated[str, AfterValidator(_source)]
    """Where it is."""
    trust: Literal["trusted", "community"] = "community"
    """Whose word its skills are."""

    @property
    def setting(self) -> HubSetting:
        """The same as hubs are asked."""
        return HubSetting(self.name, parsed(self.url), Trust(self.trust))
