"""The seam between the gateway and a messaging platform."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct, field

from gateway_service.errors import Refused
from gateway_service.messages import (
    ButtonPress,
    ChatMove,
    Content,
    DeliveryFailure,
    Event,
    RemoteFile,
)
from gateway_service.platforms.markup import Length, units
from gateway_service.platforms.rate_limits import Rate
from services.clock import Clock
from services.errors import DatabaseUnavailable

_log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
T = TypeVar("T")

UNSTORED_WAIT_S = 1.0

Json: TypeAlias = Mapping[str, Any]
"""What a platform has sent; the inbox refuses events with parts of another kind than promised."""

UNREADABLE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError),
)
"""What is raised by reading what is not as its platform promises: it is passed over."""


@contextmanager
def passing_over(what: str) -> Generator[None]:
    """Log what cannot be read, instead of failing: it would come again for ever."""
    try:
        yield
    except UNREADABLE as error:
        _log.error("%s cannot be read and is passed over: %r", what, error)


THUMBS = {"+1": "👍", "thumbsup": "👍", "-1": "👎", "thumbsdown": "👎"}
"""The emoji of approvals by names that they have on platforms."""


def command_in(text: str) -> str:
    """Return what is said to the one slash command of a platform: `/hermes new` is `/new`."""
    text = text.strip()
    return text if text.startswith("/") else f"/{text or 'help'}"


class Recent(OrderedDict[_Key, _Value]):
    """The entries that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Destination(Struct, frozen=True):
    """A chat, or a thread of it."""

    chat_id: str
    thread_id: str = ""


async def in_place(
    destination: Destination,
    is_gone: Callable[[Refused], bool],
    call: Callable[[Destination], Awaitable[T]],
) -> T:
    """Make a call for a thread, or for its chat if the thread is gone."""
    try:
        return await call(destination)
    except Refused as error:
        if not destination.thread_id or not is_gone(error):
            raise
    return await call(Destination(destination.chat_id))


class Received(Struct, frozen=True):
    """Events that a platform delivered."""

    events: Sequence[Event] = ()
    cursor: str = ""
    """Where to continue after a restart; empty keeps the stored one."""
    moves: Sequence[ChatMove] = ()
    """Chats that have another id now."""
    failures: Sequence[DeliveryFailure] = ()
    """Messages of ours that did not arrive after all."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to store, except maybe a cursor."""
        return not (self.events or self.moves or self.failures)


NOTHING = Received()
"""An empty poll or a heartbeat."""


class Sink(Protocol):
    """Where a platform stores what it receives."""

    @property
    def cursor(self) -> str:
        """Return the stored cursor; empty at first."""
        ...

    async def store(self, received: Received = NOTHING) -> None:
        """Store events, and note that the platform is alive; acknowledge events only afterwards.

        Raises DatabaseUnavailable, which ends `listen` until it is called again.
        """
        ...


async def store_at_once(sink: Sink, received: Received) -> None:
    """Store what the platform does not send again, however long that takes."""
    while True:
        try:
            await sink.store(received)
        except DatabaseUnavailable as error:
            _log.error("events cannot be stored yet: %s", error)
            await asyncio.sleep(UNSTORED_WAIT_S)
        else:
            return


HEARTBEAT_S = 20.0


async def stay_alive(sink: Sink, clock: Clock) -> None:
    """Listen to a platform that calls `webhook` instead: show that it is alive."""
    while True:
        await sink.store()
        await clock.sleep(HEARTBEAT_S)


class Traits(Struct, frozen=True):
    """Properties of a platform."""

    message_units: int
    """The maximum length of a message, as `length` counts."""
    rate: Rate
    """How much may be sent to a chat."""
    length: Length = units
    """Counts a text as the platform does; by default in UTF-16 code units."""
    can_edit: bool = True
    """Whether messages can be changed; if not, an answer appears once it is complete."""
    repeats_safely_s: float = 0.0
    """For how long `send` with a key that was used before creates no second message."""
    buttons: int = 8
    """How many buttons a message may have; choices beyond that are numbered text."""
    edit_interval_s: float = 0.8
    """How often an answer in progress is updated."""
    typing_interval_s: float = 4.0
    """How often the typing indicator is renewed."""
    caption_units: int = 0
    """The maximum length of a file's caption, as `length` counts."""
    file_bytes: int = 0
    """The maximum size of a message's files together; 0 if files cannot be sent."""
    album_pictures: int = 1
    """How many pictures one message may have."""
    deaf_after_s: float = 60.0
    """A platform that stored nothing for this long, not even a heartbeat, is unready."""
    markup: str = ""
    """What the model is told about the formatting that the platform shows."""


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
    identity: str = ""
    """Whose account it is, for people; known once connected."""
    traits: Traits

    async def listen(self, sink: Sink) -> None:
        """Receive events until cancelled; after an error it is called again with a pause."""
        ...

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        """Create a message and return its id; it has a file only if the traits allow it.

        `key` is the same whenever the same message is sent again, and at most 24 characters.
        """
        ...

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        """Replace a message's content; may be repeated. Only called if the traits allow it."""
        raise Refused(f"{self.name}: messages cannot be changed")

    async def typing(self, destination: Destination) -> None:
        """Show the typing indicator for some seconds."""

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Answer the press of a button."""

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        """Yield a received file's content in chunks."""
        raise Refused(f"{self.name} cannot give files")
        yield b""


class WebhookRequest(Struct, frozen=True):
    """An HTTP request of a platform."""

    method: str
    url: str
    """The URL that the platform called."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class WebhookResult(Struct, frozen=True):
    """What a platform's request is answered with, once its events are stored."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    received: Received = field(default_factory=Received)


@runtime_checkable
class HasWebhook(Protocol):
    """A platform that calls the gateway."""

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        """Check a request's signature, then read it; also called where nothing is connected."""
        ...


@runtime_checkable
class HasCheck(Protocol):
    """A platform that is checked in another way than by connecting."""

    async def check(self) -> str:
        """Check the account, and disturb no other process that uses it; return its identity."""
        ...


MenuItems: TypeAlias = tuple[tuple[str, str], ...]
"""Command names with descriptions."""


@runtime_checkable
class HasMenu(Protocol):
    """A platform with a command menu; its methods fail as those of `Platform` do."""

    async def menu(self) -> MenuItems:
        """Return the menu of private chats."""
        ...

    async def offer(self, items: MenuItems) -> None:
        """Set the menu."""
        ...
