"""Opening each implementation of the Platform seam in a world where people talk to it."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, Protocol

from gateway_service.errors import OutcomeUnknown, RateLimited, Refused
from gateway_service.platforms.base import Platform
from gateway_service.platforms.telegram.platform import TelegramPlatform
from tests.fakes.platform import MemoryPlatform
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram

Failure = Literal["limited", "refused", "lost answer"]


class World(Protocol):
    """What people do and see, whatever the platform; the bot's chat has the id 5."""

    def connect(self) -> Platform:
        """A platform that is to be entered."""
        ...

    async def say(self, text: str) -> None:
        """Somebody writes."""
        ...

    async def press(self, message_id: str, data: str) -> None:
        """Somebody presses a button of a message."""
        ...

    def fail(self, how: Failure) -> None:
        """Let the next message that is sent fail."""
        ...

    def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """The messages of the chat by id: what each says, and the data of its buttons."""
        ...


class MemoryWorld:
    """People beside a platform in memory."""

    def __init__(self) -> None:
        self._platform = MemoryPlatform()

    def connect(self) -> Platform:
        return self._platform

    async def say(self, text: str) -> None:
        self._platform.say("5", text)

    async def press(self, message_id: str, data: str) -> None:
        self._platform.press("5", data)

    def fail(self, how: Failure) -> None:
        failures = {
            "limited": RateLimited("wait", 1.0),
            "refused": Refused("blocked"),
            "lost answer": OutcomeUnknown("who knows"),
        }
        self._platform.failures.append(failures[how])

    def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {
            message_id: (content.text, [button.data for button in content.buttons])
            for message_id, content in self._platform.chats.get("5", {}).items()
        }


class TelegramWorld:
    """People on a Telegram server."""

    def __init__(self, server: FakeTelegram) -> None:
        self._server = server

    def connect(self) -> Platform:
        return TelegramPlatform(TOKEN, self._server.url)

    async def say(self, text: str) -> None:
        await self._server.say(5, text)

    async def press(self, message_id: str, data: str) -> None:
        await self._server.press(5, int(message_id), data)

    def fail(self, how: Failure) -> None:
        faults = {"limited": "limited", "refused": "forbidden", "lost answer": "drop_after"}
        self._server.faults.planned["sendMessage"].append(faults[how])

    def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        messages = self._server.chats[5].values()
        return {str(shown.id): (shown.text, shown.buttons) for shown in messages}


@asynccontextmanager
async def memory() -> AsyncGenerator[World]:
    yield MemoryWorld()


@asynccontextmanager
async def telegram() -> AsyncGenerator[World]:
    async with fake_telegram() as server:
        yield TelegramWorld(server)


IMPLEMENTATIONS: Mapping[str, Callable[[], AbstractAsyncContextManager[World]]] = {
    "memory": memory,
    "telegram": telegram,
}
