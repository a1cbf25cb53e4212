"""Which skills only a person changes, whoever else asks: a tool, a review, the curator."""

from enum import StrEnum

from agent_service.skills.library import Origin
from agent_service.skills.usage import Usage


class Protection(StrEnum):
    """Why a skill stays as it is."""

    NONE = ""
    BUNDLED = "it came with Hermes"
    HUB = "it was installed from a hub"
    PINNED = "the user has pinned it"


def protection(origin: Origin, usage: Usage) -> Protection:
    """Why a skill stays as it is; NONE, which is false, where it may be changed."""
    if origin is Origin.BUNDLED:
        return Protection.BUNDLED
    if origin is Origin.HUB:
        return Protection.HUB
    return Protection.PINNED if usage.pinned else Protection.NONE
