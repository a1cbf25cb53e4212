"""When conversations are compressed."""

from msgspec import Struct

from agent_service.models.fallback import USUAL, Route


class Policy(Struct, frozen=True):
    """When and how a conversation is compressed."""

    enabled: bool = True
    threshold: float | None = None
    """Share of the window from which on; None chooses by the window's size."""
    protect_first: int = 3
    protect_last: int = 4
    route: Route = USUAL
    """To what writes the notes; without a model it is the turn's own."""
