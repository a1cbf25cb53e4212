"""Wake-ups about possible changes. They can be lost, so listeners poll as well."""

import asyncio
from collections import defaultdict


class Hint:
    """Wakes one listener."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Return True on a hint, at once if one came since the last call; False on a timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def give(self) -> None:
        self._event.set()


class Hints:
    """The listeners of this process, by channel."""

    def __init__(self) -> None:
        self._channels: defaultdict[str, list[Hint]] = defaultdict(list)

    def listen(self, channel: str) -> Hint:
        """Return a hint that wakes on each `give` from now on."""
        hint = Hint()
        self._channels[channel].append(hint)
        return hint

    def give(self, channel: str) -> None:
        for hint in self._channels.get(channel, ()):
            hint.give()

    def give_all(self) -> None:
        """Wake every listener, as after a lost connection that may have lost hints."""
        for channel in self._channels:
            self.give(channel)
