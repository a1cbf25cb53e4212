"""When the agent looks back at a conversation, and who hears what has come of it."""

from collections.abc import Mapping, Set
from enum import StrEnum

from msgspec import Struct


class Telling(StrEnum):
    """How much somebody is told of what a review has kept."""

    OFF = "off"
    ON = "on"
    VERBOSE = "verbose"
    """What it is, too."""


REVIEW_KIND = "review_kind"
"""What the origin of a review's turn has as its kind."""


class ReviewKind(StrEnum):
    """What a look back at a conversation may change."""

    MEMORY = "memory"
    SKILLS = "skills"
    BOTH = "both"

    @classmethod
    def of(cls, *, memory: bool, skills: bool) -> "ReviewKind":
        """That of a review of one of them, or of both."""
        if memory and skills:
            return cls.BOTH
        return cls.MEMORY if memory else cls.SKILLS

    @classmethod
    def of_origin(cls, origin: Mapping[str, str]) -> "ReviewKind":
        """That of a review's turn; what an earlier release has begun does not say it."""
        return cls(origin.get(REVIEW_KIND, cls.BOTH))


class NudgePolicy(Struct, frozen=True):
    """After how much the agent looks back; 0 is never."""

    memory_turns: int
    skill_iterations: int
    toolsets: Set[str]
    """Those that there are tools of."""
    telling: Telling = Telling.ON
