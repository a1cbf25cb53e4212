"""When conversations are compressed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """When and how a conversation is compressed."""

    enabled: bool = True
    threshold: float | None = None
    """Share of the window from which on; None chooses by the window's size."""
    protect_first: int = 3
    protect_last: int = 4
    model: str = ""
    """What writes the notes; empty is the turn's own model."""
