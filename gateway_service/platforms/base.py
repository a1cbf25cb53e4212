"""The seam between the gateway and a messaging platform."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from gateway_service.messages import ButtonPress, Content, Event
from gateway_service.platforms.rate_limits import Rate


class Destination(Struct, frozen=True):
    """A chat, or a thread of it."""

    chat_id: str
    thread_id: str = ""


class Received(Struct, frozen=True):
    """What a platform has handed out."""

    events: Sequence[Event]
    position: int
    """What to ask from next; asking for it says that these events are stored."""


class Traits(Struct, frozen=True):
    """What is particular to a platform."""

    message_units: int
    """How long a message may be, in UTF-16 code units."""
    rate: Rate
    """How much may be sent to a chat."""
    edit_interval_s: float = 0.8
    """How often an answer that is being written is shown anew."""
    typing_interval_s: float = 4.0
    """How often the chat is told that an answer is being written."""
    caption_units: int = 0
    """How long the text beside a file may be."""
    file_bytes: int = 0
    """How large a file may be; 0 where it cannot be sent any."""
    deaf_after_s: float = 60.0
    """One that is polled and has not answered for so long is deaf: longer than a poll may take."""


class Platform(AbstractAsyncContextManager["Platform"], Protocol):
    """One account of a platform, connected inside `async with`.

    Methods fail with Unreachable (nothing was done), OutcomeUnknown (it may have been done),
    RateLimited, MessageGone (there is nothing to edit), Refused (the same would fail again) or
    AccountRefused (nothing works any more before somebody has looked at it).
    """

    name: str
    """The platform's name in lower case."""
    account_id: str
    """The account on it, known before anybody connects."""
    traits: Traits

    async def receive(self, position: int) -> Received:
        """Wait for events from a position on, 0 at first, and forget those before it."""
        ...

    async def send(self, destination: Destination, content: Content) -> str:
        """Create a message; returns its id. It has a file only where the traits allow it."""
        ...

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        """Make a message show this, whatever it showed before; again is the same."""
        ...

    async def typing(self, destination: Destination) -> None:
        """Tell the chat for some seconds that an answer is being written."""
        ...

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Tell whoever pressed a button what came of it."""
        ...


MenuItems: TypeAlias = tuple[tuple[str, str], ...]
"""Names of commands, each with what it does."""


class HasMenu(Protocol):
    """A platform that shows commands to choose from; its methods fail as those of `Platform` do."""

    async def menu(self, person: str) -> MenuItems:
        """What is shown to a person, or with an empty id in every other chat of two."""
        ...

    async def offer(self, person: str, items: MenuItems) -> None:
        """Show these from now on; nothing means what the others are shown."""
        ...
