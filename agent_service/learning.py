"""When the agent looks back at a conversation, and who hears what has come of it."""

from collections.abc import Set
from enum import StrEnum

from msgspec import Struct


class Telling(StrEnum):
    """How much somebody is told of what a review has kept."""

    OFF = "off"
    ON = "on"
    VERBOSE = "verbose"
    """What it is, too."""


class NudgePolicy(Struct, frozen=True):
    """After how much the agent looks back; 0 is never."""

    memory_turns: int
    skill_iterations: int
    toolsets: Set[str]
    """Those that there are tools of."""
    telling: Telling = Telling.ON
