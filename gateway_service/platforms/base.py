"""The seam between the gateway and a messaging platform."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from gateway_service.messages import ButtonPress, ChatMove, Content, Event
from gateway_service.platforms.rate_limits import Rate


class Destination(Struct, frozen=True):
    """A chat, or a thread of it."""

    chat_id: str
    thread_id: str = ""


class Received(Struct, frozen=True):
    """Events that a platform delivered."""

    events: Sequence[Event]
    position: int
    """Where to continue; receiving from it confirms that these events are stored."""
    moves: Sequence[ChatMove] = ()
    """Chats that have another id now."""


class Traits(Struct, frozen=True):
    """Properties of a platform."""

    message_units: int
    """The maximum length of a message, in UTF-16 code units."""
    rate: Rate
    """How much may be sent to a chat."""
    edit_interval_s: float = 0.8
    """How often an answer in progress is updated."""
    typing_interval_s: float = 4.0
    """How often the typing indicator is renewed."""
    caption_units: int = 0
    """The maximum length of a file's caption, in UTF-16 code units."""
    file_bytes: int = 0
    """The maximum size of a file; 0 if files cannot be sent."""
    deaf_after_s: float = 60.0
    """A polled platform that has not answered for this long is unready; longer than a poll takes.
    """


class Platform(AbstractAsyncContextManager["Platform"], Protocol):
    """One account of a platform, connected inside `async with`.

    Methods fail with Unreachable (nothing was done), OutcomeUnknown (it may have been done),
    RateLimited, MessageGone (there is nothing to edit), ChatMoved (the chat has another id),
    Refused (the same would fail again) or AccountRefused (nothing works until a person fixes it).
    """

    name: str
    """The platform's name in lower case."""
    account_id: str
    """The account's id, known before connecting."""
    traits: Traits

    async def receive(self, position: int) -> Received:
        """Wait for events from a position, 0 at first, and discard those before it."""
        ...

    async def send(self, destination: Destination, content: Content) -> str:
        """Create a message and return its id; it has a file only if the traits allow it."""
        ...

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        """Replace a message's content; may be repeated."""
        ...

    async def typing(self, destination: Destination) -> None:
        """Show the typing indicator for some seconds."""
        ...

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Answer the press of a button."""
        ...


MenuItems: TypeAlias = tuple[tuple[str, str], ...]
"""Command names with descriptions."""


class HasMenu(Protocol):
    """A platform with a command menu; its methods fail as those of `Platform` do."""

    async def menu(self, person: str) -> MenuItems:
        """Return a person's menu; with an empty id, that of all other private chats."""
        ...

    async def offer(self, person: str, items: MenuItems) -> None:
        """Set a menu; an empty one resets the person to the common menu."""
        ...
