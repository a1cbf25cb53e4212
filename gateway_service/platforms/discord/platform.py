"""Discord, with discord.py's client: when to store, wait and repeat is ours to decide."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

from gateway_service.errors import AccountRefused, ChatMoved, Refused, Unreachable
from gateway_service.messages import ButtonPress, Content, RemoteFile
from gateway_service.platforms.base import (
    Destination,
    MenuItems,
    Platform,
    Sink,
    T,
    Traits,
    in_place,
)
from gateway_service.platforms.discord.client import (
    CALL_S,
    EPHEMERAL,
    NO_CONTENT,
    READS_MESSAGES,
    explain_closing,
    make_client,
    translated,
)
from gateway_service.platforms.discord.config import DiscordConfig, find_account
from gateway_service.platforms.discord.events import NAME, render
from gateway_service.platforms.discord.listener import Listener
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.rate_limits import Rate

if TYPE_CHECKING:
    from discord import Client, PartialMessageable
    from discord.ui import View

FILE_S = 60.0
BUTTONS_A_ROW = 5
LABEL_CHARS = 80
DESCRIPTION_CHARS = 100

_UNKNOWN_CHANNEL = "(10003)"
_THREAD_GONE = (_UNKNOWN_CHANNEL, "(50083)")
_ARGUMENTS = {"type": 3, "name": "text", "description": "What follows the command"}


class DiscordPlatform(Platform):
    """A bot's account."""

    name = NAME
    traits = Traits(
        message_units=1900,  # room for the marks of tables
        length=len,
        rate=Rate(per_second=1.0, burst=5),
        repeats_safely_s=120.0,
        buttons=25,
        edit_interval_s=1.0,
        typing_interval_s=8.0,
        caption_units=1900,
        file_bytes=10_000_000,
        album_pictures=10,
        deaf_after_s=90.0,
        markup="Discord shows Markdown except for tables and pictures, and headings up to ###.",
    )

    def __init__(self, token: str, base_url: str, people: Sequence[str] = ()) -> None:
        """`people` are asked about direct messages that were missed."""
        self.account_id = find_account(token)
        self._token, self._base_url, self._people = token, base_url, people
        self._stack = AsyncExitStack()
        self._connected: Client | None = None
        self._listener: Listener | None = None

    @classmethod
    def configured(cls, config: DiscordConfig) -> "DiscordPlatform":
        """Return the account of the settings."""
        return cls(config.token.get_secret_value(), config.base_url, config.allowed_users)

    async def __aenter__(self) -> Self:
        # The library takes half a second to load.
        handlers: dict[str, Any] = {}
        client = await asyncio.to_thread(make_client, self._base_url, handlers)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            async with translated():
                await client.login(self._token)
            if not client.application_flags.value & READS_MESSAGES:
                raise AccountRefused(explain_closing(NO_CONTENT))
            self._stack = stack.pop_all()
        self._connected, self.identity = client, f"@{client.user}"
        self._listener = Listener(client, self.account_id, self._people)
        handlers.update(self._listener.handlers)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connected = self._listener = None
        await self._stack.aclose()

    async def listen(self, sink: Sink) -> None:
        if self._listener is None:
            raise Unreachable("discord is not connected")
        await self._listener.listen(sink)

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        from discord import Object

        person = destination.chat_id
        try:
            return await _in_place(destination, lambda place: self._create(place, content, key))
        except Refused as error:
            if not error.message.endswith(_UNKNOWN_CHANNEL):
                raise
            try:
                async with translated():
                    chat = await self._client.create_dm(Object(_number(person)))
            except Refused:
                raise error from None
        raise ChatMoved(f"discord: {person} is a person", str(chat.id))

    async def _create(self, destination: Destination, content: Content, key: str) -> str:
        from discord import AllowedMentions, File

        channel = self._channel(destination)
        options: dict[str, Any] = {"allowed_mentions": AllowedMentions.none(), "nonce": key}
        if content.buttons:
            options["view"] = _view(content)
        if files := content.attachments:
            # The library does not quote names.
            names = [each.name.replace('"', "'") for each in files]
            options["files"] = [
                File(BytesIO(each.data), filename=name)
                for each, name in zip(files, names, strict=True)
            ]
        async with translated(FILE_S if files else CALL_S):
            text = render(content.text) or None
            message = await channel.send(text, suppress_embeds=True, **options)
        return str(message.id)

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        await _in_place(destination, lambda place: self._rewrite(place, message_id, content))

    async def _rewrite(self, destination: Destination, message_id: str, content: Content) -> None:
        from discord import AllowedMentions

        message = self._channel(destination).get_partial_message(_number(message_id))
        view = _view(content) if content.buttons else None
        async with translated():
            await message.edit(
                content=render(content.text), view=view, allowed_mentions=AllowedMentions.none()
            )

    async def typing(self, destination: Destination) -> None:
        await _in_place(destination, self._type)

    async def _type(self, destination: Destination) -> None:
        channel = self._channel(destination)
        async with translated():
            await channel.typing()

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        from discord.http import Route

        # The press itself was answered when it was stored.
        client = self._client
        path, app_id = "/webhooks/{webhook_id}/{token}", client.application_id
        route = Route("POST", path, webhook_id=app_id, token=press.press_id)
        async with translated():
            await client.http.request(route, json={"content": text, "flags": EPHEMERAL})

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        channel_id, message_id, file_id = map(_number, file.id.split("/"))
        channel = self._client.get_partial_messageable(channel_id)
        async with translated():
            # The links of files expire within a day.
            message = await channel.fetch_message(message_id)
        found = next((each for each in message.attachments if each.id == file_id), None)
        if found is None:
            raise Refused(f"discord: {file.name} was deleted")
        async with HttpApi(NAME, found.url) as api, aclosing(api.download("")) as chunks:
            async for chunk in chunks:
                yield chunk

    async def menu(self) -> MenuItems:
        client = self._client
        async with translated():
            found = await client.http.get_global_commands(client.application_id or 0)
        return tuple((each["name"], each["description"]) for each in found)

    async def offer(self, items: MenuItems) -> None:
        client = self._client
        commands = [
            {"name": name, "description": description[:DESCRIPTION_CHARS], "options": [_ARGUMENTS]}
            for name, description in items
        ]
        async with translated():
            await client.http.bulk_upsert_global_commands(client.application_id or 0, commands)

    def _channel(self, destination: Destination) -> "PartialMessageable":
        place = destination.thread_id or destination.chat_id
        return self._client.get_partial_messageable(_number(place))

    @property
    def _client(self) -> "Client":
        if self._connected is None:
            raise Unreachable("discord is not connected")
        return self._connected


async def _in_place(destination: Destination, call: Callable[[Destination], Awaitable[T]]) -> T:
    return await in_place(destination, lambda error: error.message.endswith(_THREAD_GONE), call)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Refused(f"discord: {text!r} is no id, which are numbers") from None


def _view(content: Content) -> "View":
    from discord.ui import Button, View

    view = View(timeout=None)
    for index, each in enumerate(content.buttons):
        label, row = each.label[:LABEL_CHARS], index // BUTTONS_A_ROW
        view.add_item(Button(label=label, custom_id=each.data, row=row))
    # The library keeps no view that has stopped; presses are ours to store.
    view.stop()
    return view
