"""What the suite of platforms needs of each: people who talk to it, and see what it shows."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from gateway_service.platforms.base import Destination, Platform

Failure = Literal["limited", "refused", "lost answer"]


class World(Protocol):
    """What people do and see, whatever the platform."""

    chat: Destination = Destination("5")
    """The chat of a person with the bot."""
    cursor: str = ""
    """From where an account listens that has not stored anything."""
    keeps_events: bool = True
    """Whether what was not stored comes again."""

    def connect(self) -> Platform:
        """A platform that is to be entered."""
        ...

    async def until_unheard(self) -> None:
        """Return once the platform knows that nobody listens, if it gives an event only once."""
        await asyncio.sleep(0)

    async def say(self, text: str) -> None:
        """Somebody writes."""
        ...

    async def press(self, message_id: str, data: str) -> None:
        """Somebody presses a button of a message."""
        ...

    def fail(self, how: Failure) -> None:
        """Let the next message that is sent fail."""
        ...

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """The messages of the chat by id: what each says, and the data of its buttons."""
        ...

    async def files(self) -> Sequence[tuple[str, bytes]]:
        """The names and contents of the files that the chat has got, the oldest first."""
        ...
