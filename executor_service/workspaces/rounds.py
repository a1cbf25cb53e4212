"""Looking at many places again and again, none of which keeps anybody from looking at others."""

import math
import time
from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any


class Rounds:
    """When each place is due to be looked at again."""

    def __init__(self, share: float) -> None:
        self._share = share
        """How much of the time may be spent on looking at one place."""
        self._due: dict[str, float] = {}

    def is_due(self, place: str) -> bool:
        """Whether nobody looks at a place, or did a moment ago."""
        return time.monotonic() >= self._due.get(place, 0)

    async def look(
        self,
        place: str,
        pause_s: float,
        looking: Callable[[], Awaitable[None]],
        room: AbstractAsyncContextManager[Any] | None = None,
    ) -> None:
        """Looks at a place, which is due again after a pause, or later if that was slow.

        Waiting for `room`, where few are looked at side by side, makes nobody slow.
        """
        self._due[place] = math.inf
        async with room or nullcontext():
            started = time.monotonic()
            await looking()
            ended = time.monotonic()
        self._due[place] = ended + max(pause_s, (ended - started) / self._share)

    def forget_others(self, places: Container[str]) -> None:
        """Only these are places from now on."""
        self._due = {place: due for place, due in self._due.items() if place in places}
