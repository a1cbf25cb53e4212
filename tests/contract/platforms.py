"""Opening each implementation of the Platform seam in a world where people talk to it."""

import base64
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway_service.errors import OutcomeUnknown, RateLimited, Refused
from gateway_service.platforms.base import Platform, Sink, Traits
from gateway_service.platforms.discord.platform import DiscordPlatform
from gateway_service.platforms.mattermost.platform import MattermostPlatform
from gateway_service.platforms.signal.platform import SignalPlatform
from gateway_service.platforms.slack.webhook import make_slack
from gateway_service.platforms.sms.platform import SmsPlatform
from gateway_service.platforms.telegram.platform import TelegramPlatform
from gateway_service.platforms.whatsapp.platform import WhatsAppPlatform
from services.clock import SystemClock
from tests.contract.home_worlds import EmailWorld, HomeAssistantWorld
from tests.contract.matrix_world import matrix
from tests.contract.platform_world import Failure, World
from tests.fakes.discord import fake_discord
from tests.fakes.homeassistant import fake_homeassistant
from tests.fakes.mattermost import fake_mattermost
from tests.fakes.platform import PLAIN, MemoryPlatform
from tests.fakes.signal_cli import config_of as signal_config
from tests.fakes.signal_cli import fake_signal_cli
from tests.fakes.slack import config_of, fake_slack
from tests.fakes.telegram import TOKEN, fake_telegram
from tests.fakes.twilio import FakeTwilio, fake_twilio
from tests.fakes.twilio import config_of as twilio_config
from tests.fakes.whatsapp import CLOSED as WHATSAPP_CLOSED
from tests.fakes.whatsapp import LIMITED as WHATSAPP_LIMITED
from tests.fakes.whatsapp import FakeWhatsApp, fake_whatsapp
from tests.fakes.whatsapp import config_of as whatsapp_config
from tests.support.dovecot import mail_server
from tests.support.executors import until

S = TypeVar("S")


class MemoryWorld(World):
    """People beside a platform in memory."""

    def __init__(self, traits: Traits | None = None) -> None:
        self._platform = MemoryPlatform(traits=traits)

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

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {
            message_id: (content.text, [button.data for button in content.buttons])
            for message_id, content in self._platform.chats.get("5", {}).items()
        }

    async def files(self) -> Sequence[tuple[str, bytes]]:
        sent = self._platform.chats.get("5", {}).values()
        return [(each.name, each.data) for content in sent for each in content.attachments]


class ServedWorld(World):
    """People on a fake server, which is told what they say and press, and what is to fail."""

    creates = "create"
    """What the server calls the making of a message."""
    refusal = "forbidden"

    def __init__(self, server: Any) -> None:
        self._server = server

    async def say(self, text: str) -> None:
        await self._server.say("5", text)

    async def press(self, message_id: str, data: str) -> None:
        await self._server.press("5", message_id, data)

    def fail(self, how: Failure) -> None:
        faults = {"limited": "limited", "refused": self.refusal, "lost answer": "drop_after"}
        self._server.faults.planned[self.creates].append(faults[how])


class TelegramWorld(ServedWorld):
    """People on a Telegram server."""

    creates = "sendMessage"

    def connect(self) -> Platform:
        return TelegramPlatform(TOKEN, self._server.url)

    async def say(self, text: str) -> None:
        await self._server.say(5, text)

    async def press(self, message_id: str, data: str) -> None:
        await self._server.press(5, int(message_id), data)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        messages = self._server.chats[5].values()
        return {str(shown.id): (shown.text, shown.buttons) for shown in messages}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        shown = [each.file for each in self._server.chats[5].values()]
        return [(each.name, each.data) for each in shown if each]


class SlackWorld(ServedWorld):
    """People in a Slack workspace."""

    creates, refusal = "chat.postMessage", "is_archived"

    def connect(self) -> Platform:
        return make_slack(config_of(self._server))

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        messages = self._server.chats["5"]
        return {ts: (shown.text, shown.buttons) for ts, shown in messages.items()}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return list(self._server.files.items())


class Called(WhatsAppPlatform):
    """A number whose calls are taken as the gateway's HTTP listener takes them."""

    def __init__(self, server: FakeWhatsApp) -> None:
        super().__init__(whatsapp_config(server), SystemClock())
        self._server = server

    async def listen(self, sink: Sink) -> None:
        while True:
            await sink.store()
            result = await self.webhook(await self._server.next_call())
            await sink.store(result.received)
            self._server.confirm()


class WhatsAppWorld(ServedWorld):
    """People with WhatsApp on their phones."""

    def connect(self) -> Platform:
        return Called(self._server)

    async def press(self, message_id: str, data: str) -> None:
        await self._server.press("5", data)

    def fail(self, how: Failure) -> None:
        if how == "lost answer":
            self._server.faults.planned["messages"].append("drop_after")
        else:
            self._server.errors.append(WHATSAPP_LIMITED if how == "limited" else WHATSAPP_CLOSED)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        messages = self._server.chats["5"]
        return {message_id: (one.text, one.buttons) for message_id, one in messages.items()}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        sent = [one.about for one in self._server.chats["5"].values()]
        return [(about["filename"], self._server.media[about["id"]][1]) for about in sent]


class CalledByTwilio(SmsPlatform):
    """A number whose calls are taken as the gateway's HTTP listener takes them."""

    def __init__(self, server: FakeTwilio) -> None:
        super().__init__(twilio_config(server.url), SystemClock())
        self._server = server

    async def listen(self, sink: Sink) -> None:
        while True:
            await sink.store()
            result = await self.webhook(await self._server.next_call())
            await sink.store(result.received)
            self._server.confirm()


class SignalWorld(ServedWorld):
    """People with Signal; what signal-cli has passed on does not come again."""

    keeps_events = False

    def connect(self) -> Platform:
        return SignalPlatform(signal_config(self._server))

    async def until_unheard(self) -> None:
        await until(lambda: not self._server.stream_count)

    def fail(self, how: Failure) -> None:
        self._server.faults.append("drop_after" if how == "lost answer" else how)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {sent: (text, []) for sent, text in self._server.sent.items()}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        calls = [call["params"] for call in self._server.calls if call["method"] == "send"]
        sent = [each["attachments"][0] for each in calls]
        parts = [re.fullmatch(r"data:[^;,]+;filename=([^;,]+);base64,(.+)", each) for each in sent]
        return [(each[1], base64.b64decode(each[2])) for each in parts if each]


class SmsWorld(ServedWorld):
    """People with a phone."""

    def connect(self) -> Platform:
        return CalledByTwilio(self._server)

    def fail(self, how: Failure) -> None:
        self._server.faults.append("drop_after" if how == "lost answer" else how)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {sid: (text, []) for sid, (_, text) in self._server.sent.items()}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return []


class DiscordWorld(ServedWorld):
    """People on a Discord server."""

    def connect(self) -> Platform:
        return DiscordPlatform(self._server.token, self._server.url, people=["7"])

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        messages = self._server.chats["5"].values()
        return {shown.id: (shown.text, shown.buttons) for shown in messages}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return [file for each in self._server.chats["5"].values() for file in each.files]


class MattermostWorld(ServedWorld):
    """People on a Mattermost server."""

    def connect(self) -> Platform:
        return MattermostPlatform(self._server.url, self._server.token)

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {post["id"]: (post["message"], []) for post in self._server.shown("5")}

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return list(self._server.files.values())


@asynccontextmanager
async def memory(_folder: Path) -> AsyncGenerator[World]:
    yield MemoryWorld()


@asynccontextmanager
async def memory_of_texts(_folder: Path) -> AsyncGenerator[World]:
    yield MemoryWorld(PLAIN)


def served(
    fake: Callable[[], AbstractAsyncContextManager[S]], world: Callable[[S], World]
) -> Callable[[Path], AbstractAsyncContextManager[World]]:
    """A world whose platform is a fake server."""

    @asynccontextmanager
    async def opened(_folder: Path) -> AsyncGenerator[World]:
        async with fake() as server:
            yield world(server)

    return opened


IMPLEMENTATIONS: Mapping[str, Callable[[Path], AbstractAsyncContextManager[World]]] = {
    "matrix": matrix,
    "memory": memory,
    "memory of texts": memory_of_texts,
    "discord": served(fake_discord, DiscordWorld),
    "mattermost": served(fake_mattermost, MattermostWorld),
    "signal": served(fake_signal_cli, SignalWorld),
    "slack": served(fake_slack, SlackWorld),
    "sms": served(fake_twilio, SmsWorld),
    "telegram": served(fake_telegram, TelegramWorld),
    "whatsapp": served(fake_whatsapp, WhatsAppWorld),
    "email": served(mail_server, EmailWorld),
    "homeassistant": served(fake_homeassistant, HomeAssistantWorld),
}
