"""A platform in memory: the smallest thing that keeps what the seam promises."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from itertools import count
from typing import Self

from msgspec.structs import replace

from gateway_service.errors import (
    ChatMoved,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    Refused,
    Unreachable,
)
from gateway_service.messages import (
    ButtonPress,
    Content,
    Event,
    MessageEvent,
    Reaction,
    RemoteFile,
    Source,
)
from gateway_service.platforms.base import Destination, Platform, Received, Sink, Traits
from gateway_service.platforms.rate_limits import Rate

PLAIN = Traits(message_units=400, rate=Rate(1000.0, 100), can_edit=False, buttons=0)
"""A platform of plain texts."""


class MemoryPlatform(Platform):
    """One account; what people do is `say` and `press`, what they see is `chats`."""

    name = "memory"

    def __init__(self, account_id: str = "1", traits: Traits | None = None) -> None:
        self.account_id = account_id
        self.traits = traits or Traits(message_units=200, rate=Rate(1000.0, 100))
        self.chats: dict[str, dict[str, Content]] = {}
        self.typed: list[Destination] = []
        self.acknowledged: dict[str, str] = {}
        self.failures: deque[PlatformError | None] = deque()
        """What becomes of the next calls other than `listen`; None lets one pass."""
        self.moved: dict[str, str] = {}
        """Chats that have another id now."""
        self.refuse_edits = False
        self.listen_failures: deque[Exception] = deque()
        self.listeners = self.most_listeners = 0
        self.keys = dict[str, str]()
        """Ids of messages by the keys that they were sent with."""
        self.files: dict[str, bytes] = {}
        """Contents of people's files by their ids."""
        self.downloads = 0
        self._events: list[Event] = []
        self._ids = count(1)
        self._new = asyncio.Event()
        self._connected = False

    def say(
        self,
        chat_id: str,
        text: str,
        user_id: str = "7",
        edits: str = "",
        files: tuple[RemoteFile, ...] = (),
    ) -> str:
        """Somebody writes, or edits what they wrote; return the message's id."""
        source = Source(self.name, chat_id, user_id=user_id, user_name="Ada")
        event_id = f"{self.account_id}:{len(self._events)}"
        message_id = edits or f"theirs-{len(self._events)}"
        said = MessageEvent(event_id, source, text, message_id=message_id, edits=edits)
        self._add(replace(said, files=files))
        return message_id

    def react(self, chat_id: str, message_id: str, emoji: str, user_id: str = "7") -> None:
        """Somebody puts an emoji on a message of ours."""
        source = Source(self.name, chat_id, user_id=user_id, user_name="Ada")
        self._add(Reaction(f"{self.account_id}:{len(self._events)}", source, message_id, emoji))

    def press(self, chat_id: str, data: str, user_id: str = "7") -> None:
        """Somebody presses a button."""
        source = Source(self.name, chat_id, user_id=user_id, user_name="Ada")
        number = len(self._events)
        self._add(ButtonPress(f"{self.account_id}:{number}", source, f"press-{number}", data))

    def texts(self, chat_id: str) -> list[str]:
        """What the messages of a chat say."""
        return [content.text for content in self.chats.get(chat_id, {}).values()]

    async def __aenter__(self) -> Self:
        self._connected = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connected = False

    async def listen(self, sink: Sink) -> None:
        """Give the events after the cursor, as they come."""
        self._check()
        self.listeners += 1
        self.most_listeners = max(self.most_listeners, self.listeners)
        try:
            while True:
                if self.listen_failures:
                    raise self.listen_failures.popleft()
                position = int(sink.cursor or 0)
                while len(self._events) <= position:
                    self._new.clear()
                    await sink.store()
                    await self._new.wait()
                await sink.store(Received(self._events[position:], str(len(self._events))))
        finally:
            self.listeners -= 1

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        """Create a message, or return the one that has this key, if that is safe here."""
        self._check_traits(content)
        if self.traits.repeats_safely_s and key in self.keys:
            return self.keys[key]
        failure = self._failure(destination)
        # That the outcome is unknown is worst when it was done.
        if failure is not None and not isinstance(failure, OutcomeUnknown):
            raise failure
        message_id = str(next(self._ids))
        self.chats.setdefault(destination.chat_id, {})[message_id] = content
        self.keys[key] = message_id
        if failure is not None:
            raise failure
        return message_id

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        """Replace a message."""
        if not self.traits.can_edit:
            raise Refused("this platform has no edits")
        self._check_traits(content)
        if failure := self._failure(destination):
            raise failure
        if self.refuse_edits:
            raise Refused("messages of yesterday cannot be edited")
        if message_id not in self.chats.get(destination.chat_id, {}):
            raise MessageGone("there is no such message")
        self.chats[destination.chat_id][message_id] = content

    async def typing(self, destination: Destination) -> None:
        """Note that the chat was told."""
        if failure := self._failure(destination):
            raise failure
        self.typed.append(destination)

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Note what the person was told."""
        if failure := self._failure():
            raise failure
        self.acknowledged[press.press_id] = text

    def _check_traits(self, content: Content) -> None:
        assert len(content.buttons) <= self.traits.buttons, "these are too many buttons"
        assert self.traits.length(content.text) <= self.traits.message_units, "it is too long"

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        """Give a file in small pieces."""
        if failure := self._failure():
            raise failure
        self.downloads += 1
        data = self.files.get(file.id)
        if data is None:
            raise Refused("there is no such file")
        for at in range(0, len(data), 1000):
            yield data[at : at + 1000]

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._new.set()

    def _failure(self, destination: Destination | None = None) -> PlatformError | None:
        self._check()
        if destination is not None and (new := self.moved.get(destination.chat_id)):
            return ChatMoved("the chat has moved", new)
        return self.failures.popleft() if self.failures else None

    def _check(self) -> None:
        if not self._connected:
            raise Unreachable("not connected")
