"""When the agent looks back at a conversation, and who hears what has come of it."""

from collections.abc import Mapping
from enum import StrEnum

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
