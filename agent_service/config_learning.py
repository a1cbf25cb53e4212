"""Settings of what the agent keeps of its conversations by itself."""

from collections.abc import Set
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from agent_service.learning import NudgePolicy, Telling
from services.config import ConfigModel, Yaml


def _word(given: object) -> object:
    """YAML reads `on` and `off` as truth values."""
    return ("off", "on")[given] if isinstance(given, bool) else given


class LearningConfig(ConfigModel):
    """When the agent looks back at a conversation to keep something of it."""

    memory_nudge_interval: Annotated[int, Field(ge=0, le=10_000), Yaml("memory.nudge_interval")] = (
        10
    )
    """Messages of yours in a session after which the agent looks back for what to remember, unless
    it has written into its memory by itself; 0 is never."""
    skill_nudge_interval: Annotated[
        int, Field(ge=0, le=10_000), Yaml("skills.creation_nudge_interval")
    ] = 10
    """Answers of the model in a session that call tools, after which the agent looks back for what
    belongs into a skill, unless it has written one by itself; 0 is never."""
    notifications: Annotated[
        Literal["off", "on", "verbose"],
        BeforeValidator(_word),
        Yaml("display.memory_notifications"),
    ] = "on"
    """Whether you are told in a line what the agent has kept by looking back; `verbose` says what
    it is, too."""

    def policy(self, toolsets: Set[str]) -> NudgePolicy:
        """The same as turns are held to, where there are tools of these toolsets."""
        return NudgePolicy(
            self.memory_nudge_interval,
            self.skill_nudge_interval,
            toolsets,
            Telling(self.notifications),
        )
