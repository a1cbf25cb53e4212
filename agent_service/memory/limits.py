"""How much may be remembered."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from msgspec import Struct

from agent_service.errors import ModelNotConfigured

USUAL_WINDOW = 128_000
"""Tokens of a model for which the limits hold as they are."""
MOST_TIMES = 4


class Target(StrEnum):
    """Which of a profile's two memories."""

    MEMORY = "memory"
    """What the agent has learned of its work."""
    USER = "user"
    """Who the user is."""


class Limits(Struct, frozen=True):
    """Characters that each memory may have."""

    usual: Mapping[Target, int]
    window: Callable[[], Awaitable[int]] | None = None
    """Tokens of the model that they grow with; None where they do not."""

    @property
    def grow(self) -> bool:
        """Whether they are others for another model."""
        return self.window is not None

    async def now(self) -> Mapping[Target, int]:
        """The limits for the model that is configured."""
        if self.window is None:
            return self.usual
        try:
            times = min(max(await self.window() / USUAL_WINDOW, 1), MOST_TIMES)
        except ModelNotConfigured:
            times = 1
        return {target: int(limit * times) for target, limit in self.usual.items()}
