"""Discord's API and gateway for tests: they check what they are told, and can be unreliable.

What people see is in `chats`; `say`, `press` and `command` are what people do.
"""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.fakes.discord_gateway import Gateway
from tests.fakes.discord_rest import Rest
from tests.fakes.discord_rules import BOT, TOKEN, Buckets, Shown, new_id
from tests.fakes.http_server import bind, serving
from tests.fakes.telegram_faults import Faults

GUILD, CHANNEL, THREAD, ROLE = "100", "50", "51", "60"
NAMES = {BOT: "Hermes", "7": "Ada", "8": "Bob"}


def user(user_id: str) -> dict[str, Any]:
    """A user as Discord tells of them."""
    name = NAMES.get(user_id, f"User {user_id}")
    return {
        "id": user_id,
        "username": name.lower().replace(" ", ""),
        "global_name": name,
        "discriminator": "0",
        "avatar": None,
        "bot": user_id == BOT,
    }


class FakeDiscord:
    """The server's state: one bot, one server of people, and direct chats."""

    def __init__(self, url: str) -> None:
        self.faults, self.buckets = Faults(), Buckets()
        self.token, self.url = TOKEN, f"{url}/api/v10"
        self.origin = url
        self.gateway = Gateway(TOKEN, url.replace("http", "ws") + "/gateway", self)
        self.chats: defaultdict[str, dict[str, Shown]] = defaultdict(dict)
        self.messages: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.direct = {"5": "7"}
        """Direct chats with the person in each."""
        self.sessions_left = 1000
        self.closed = set[str]()
        """Channels that the bot may not use."""
        self.deleted = set[str]()
        self.nonces: dict[tuple[str, str], str] = {}
        self.typed, self.calls = Counter[str](), Counter[str]()
        self.interactions: dict[str, dict[str, Any]] = {}
        """By token: the interactions, with how they were answered."""
        self.commands: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.flags = 1 << 19
        """Of the bot's application: it may read messages."""
        self.changed = asyncio.Condition()

    async def say(self, chat_id: str, text: str, user_id: str = "7", **more: Any) -> str:
        """Somebody writes; returns the message's id."""
        message = self.write(chat_id, user_id, text, more)
        await self.gateway.tell("MESSAGE_CREATE", self.told(message))
        return message["id"]

    async def rewrite(self, chat_id: str, message_id: str, text: str) -> None:
        """Somebody edits a message."""
        message = self.messages[chat_id][message_id]
        message |= {"content": text, "edited_timestamp": datetime.now(UTC).isoformat()}
        message["mentions"] = self._mentions(text)
        await self.gateway.tell("MESSAGE_UPDATE", self.told(message))

    async def press(self, chat_id: str, message_id: str, data: str, user_id: str = "7") -> None:
        """Somebody presses a button, at the latest when the bot is there."""
        assert data in self.chats[chat_id][message_id].buttons
        about = {"custom_id": data, "component_type": 2}
        message = self.messages[chat_id][message_id]
        await self._interact(3, chat_id, user_id, {"data": about, "message": message})

    async def react(self, chat_id: str, message_id: str, emoji: str, user_id: str = "7") -> None:
        """Somebody puts an emoji on a message."""
        about = {"channel_id": chat_id, "message_id": message_id, "user_id": user_id, "type": 0}
        about["message_author_id"] = self.messages[chat_id][message_id]["author"]["id"]
        place = self._place(chat_id)
        member = {"member": self._member(user_id) | {"user": user(user_id)}} if place else {}
        added = {**about, **place, **member, "emoji": {"id": None, "name": emoji}}
        await self.gateway.tell("MESSAGE_REACTION_ADD", added)

    async def command(self, chat_id: str, name: str, text: str = "", user_id: str = "7") -> None:
        """Somebody uses a slash command that is registered."""
        [found] = [each for each in self.commands if each["name"] == name]
        about: dict[str, Any] = {"id": found["id"], "name": name, "type": 1}
        if text:
            about["options"] = [{"name": "text", "type": 3, "value": text}]
        await self._interact(2, chat_id, user_id, {"data": about})

    async def _interact(self, kind: int, chat_id: str, user_id: str, more: dict[str, Any]) -> None:
        place = self._place(chat_id)
        person = {"user": user(user_id)}
        if place:
            person = {"member": self._member(user_id) | person}
        interaction: dict[str, Any] = {
            "id": new_id(),
            "application_id": BOT,
            "type": kind,
            "token": f"interaction-{new_id()}",
            "version": 1,
            "channel_id": chat_id,
            "channel": self.channel(chat_id),
            "attachment_size_limit": 10_485_760,
            **place,
            **person,
            **more,
        }
        self.interactions[interaction["token"]] = interaction
        if self.gateway.is_connected:
            await self.gateway.tell("INTERACTION_CREATE", interaction)
        else:
            self.gateway.waiting.append(("INTERACTION_CREATE", interaction))

    async def until(self, condition: Any, patience_s: float = 30.0) -> None:
        """Return once what was done to the server makes the condition true."""
        try:
            async with asyncio.timeout(patience_s), self.changed:
                await self.changed.wait_for(condition)
        except TimeoutError:
            so_far = {chat: self.texts(chat) for chat in self.chats}
            raise AssertionError(f"so far: {so_far}") from None

    def texts(self, chat_id: str) -> list[str]:
        """What the bot's messages in a chat say now, oldest first."""
        return [shown.text for shown in self.chats[chat_id].values()]

    def write(self, chat_id: str, user_id: str, text: str, more: dict[str, Any]) -> dict[str, Any]:
        """Keep a new message."""
        message: dict[str, Any] = {
            "id": new_id(more.pop("age_s", 0)),
            "channel_id": chat_id,
            "author": user(user_id),
            "content": text,
            "timestamp": datetime.now(UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": self._mentions(text),
            "mention_roles": re.findall(r"<@&(\d+)>", text),
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            **more,
        }
        self.messages[chat_id][message["id"]] = message
        return message

    def told(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message as the gateway tells of it."""
        place = self._place(message["channel_id"])
        member = {"member": self._member(message["author"]["id"])} if place else {}
        return {**message, **place, **member}

    def channel(self, chat_id: str) -> dict[str, Any]:
        last = {"last_message_id": max(self.messages[chat_id], key=int, default=None)}
        if chat_id in self.direct:
            recipients = [user(self.direct[chat_id])]
            return {"id": chat_id, "type": 1, "recipients": recipients, **last}
        base = {"id": chat_id, "guild_id": GUILD, "name": f"channel-{chat_id}", **last}
        if chat_id == THREAD:
            meta: dict[str, Any] = {
                "archived": False,
                "auto_archive_duration": 1440,
                "locked": False,
            }
            meta["archive_timestamp"] = datetime.now(UTC).isoformat()
            of = {"parent_id": CHANNEL, "owner_id": "7", "message_count": 1, "member_count": 1}
            return {**base, **of, "type": 11, "thread_metadata": meta}
        return {**base, "type": 0, "position": 0, "permission_overwrites": [], "nsfw": False}

    def ready(self) -> dict[str, Any]:
        """What a new session is told of the bot."""
        application = {"id": BOT, "flags": self.flags}
        guilds = [{"id": GUILD, "unavailable": True}]
        return {"user": user(BOT), "application": application, "guilds": guilds}

    def guilds(self) -> list[dict[str, Any]]:
        """The servers that the bot is a member of."""
        tags = {"tags": {"bot_id": BOT}, "managed": True}
        role = {"color": 0, "hoist": False, "position": 1, "permissions": "0", "mentionable": True}
        guild = {
            "id": GUILD,
            "name": "Home",
            "unavailable": False,
            "owner_id": "7",
            "member_count": 3,
            "roles": [
                {**role, "id": GUILD, "name": "@everyone", "managed": False},
                {**role, "id": ROLE, "name": "Hermes", **tags},
            ],
            "emojis": [],
            "features": [],
            "members": [self._member(BOT) | {"user": user(BOT)}],
            "channels": [self.channel(CHANNEL)],
            "threads": [self.channel(THREAD)],
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
        }
        return [guild]

    def known_channels(self) -> set[str]:
        return {*self.direct, CHANNEL, THREAD} - self.deleted

    def _place(self, chat_id: str) -> dict[str, Any]:
        return {"guild_id": GUILD} if chat_id in (CHANNEL, THREAD) else {}

    def _member(self, user_id: str) -> dict[str, Any]:
        joined = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
        return {"roles": [], "joined_at": joined, "deaf": False, "mute": False, "flags": 0}

    def _mentions(self, text: str) -> list[dict[str, Any]]:
        return [user(each) for each in dict.fromkeys(re.findall(r"<@!?(\d+)>", text))]


@asynccontextmanager
async def fake_discord() -> AsyncGenerator[FakeDiscord]:
    """A running server; `url` is its API's."""
    listener, url = bind()
    discord = FakeDiscord(url)
    async with serving(listener, Rest(discord).serve):
        yield discord
