"""Whose word a skill is."""

from enum import StrEnum

from agent_service.skills.library import HubNote, Origin


class Trust(StrEnum):
    """Whose word a skill is."""

    BUNDLED = "bundled"
    TRUSTED = "trusted"
    """Of a hub that the settings call so."""
    COMMUNITY = "community"
    AGENT_CREATED = "agent-created"


def trust_of(origin: Origin, note: HubNote) -> str:
    """Whose word it is; empty where it is the user's own."""
    match origin:
        case Origin.BUNDLED:
            return Trust.BUNDLED
        case Origin.HUB:
            return Trust.TRUSTED if note.trust == Trust.TRUSTED else Trust.COMMUNITY
        case Origin.AGENT:
            return Trust.AGENT_CREATED
        case Origin.USER:
            return ""
