"""Slack: Socket Mode, with a connection of ours.

slack-sdk's own client acknowledges from tasks of its own, which keep no order.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from gateway_service.errors import ChatMoved, Unreachable
from gateway_service.messages import DONE, ButtonPress, Content, Event, MessageEvent, RemoteFile
from gateway_service.platforms.base import (
    Destination,
    Json,
    Received,
    Sink,
    Traits,
    passing_over,
    stay_alive,
)
from gateway_service.platforms.http_api import HttpPlatform
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.slack.api import NAME, SlackApi
from gateway_service.platforms.slack.backlog import Backlog
from gateway_service.platforms.slack.config import SlackConfig
from gateway_service.platforms.slack.events import EventReader
from gateway_service.platforms.slack.mrkdwn import length, to_mrkdwn
from services.clock import Clock
from services.validation import json_object

if TYPE_CHECKING:
    import aiohttp

SECTION_UNITS = 3000
LABEL_CHARS = 75
BEAT_S = 20.0

_REFRESH = ("warning", "refresh_requested")


class SlackPlatform(HttpPlatform[SlackApi]):
    """A Slack app in a workspace."""

    name = NAME
    traits = Traits(
        message_units=SECTION_UNITS,
        length=length,
        rate=Rate(per_second=1.0, burst=5),
        buttons=25,
        edit_interval_s=1.5,  # a workspace allows about one edit a second
        caption_units=SECTION_UNITS,
        file_bytes=50_000_000,
        album_pictures=10,
    )

    def __init__(self, config: SlackConfig, clock: Clock) -> None:
        self._api, self._clock = SlackApi(config), clock
        self.account_id = self._api.account_id
        self._has_socket = bool(config.app_token.get_secret_value())
        self._events = EventReader(self._api, clock, reply_in_thread=config.reply_in_thread)
        self._backlog = Backlog(self._api, clock)

    async def _log_in(self) -> None:
        me = await self._api.call("auth_test")
        self._events.me, self.identity = me["user_id"], f"@{me['user']} in {me['team']}"

    async def check(self) -> str:
        """Try both tokens."""
        async with self:
            if self._has_socket:
                await self._api.socket_url()
            return self.identity

    async def listen(self, sink: Sink) -> None:
        if not self._has_socket:
            await stay_alive(sink, self._clock)
        async with AsyncExitStack() as stack:
            socket = await stack.enter_async_context(self._api.socket())
            await self._catch_up(sink)
            while True:
                await self._hear(socket, sink)
                # What comes meanwhile is not acknowledged, so the new connection gets it.
                async with stack.pop_all():
                    socket = await stack.enter_async_context(self._api.socket())

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        channel, thread = destination.chat_id, destination.thread_id
        if channel.startswith(("U", "W")):
            opened = await self._api.call("conversations_open", users=channel)
            raise ChatMoved(f"slack: {channel} is a person", opened["channel"]["id"])
        place = {"channel": channel, "thread_ts": thread or None}
        if content.attachment is not None:
            return await self._upload(place, content)
        found = await self._api.call(
            "chat_postMessage", **place, **_body(content), unfurl_links=False, unfurl_media=False
        )
        if thread:
            self._events.join(channel, thread)
        return found["ts"]

    async def _upload(self, place: Mapping[str, Any], content: Content) -> str:
        comment = to_mrkdwn(content.text) or None
        files = [
            {"file": each.data, "filename": each.name, "title": each.name}
            for each in content.attachments
        ]
        found = await self._api.call(
            "files_upload_v2", **place, file_uploads=files, initial_comment=comment
        )
        return found["files"][0]["id"]

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        channel = destination.chat_id
        await self._api.call("chat_update", channel=channel, ts=message_id, **_body(content))

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Tell the person what the message will not show."""
        place = press.source
        if text != DONE:
            await self._api.call(
                "chat_postEphemeral",
                channel=place.chat_id,
                user=place.user_id,
                text=text,
                thread_ts=place.thread_id or None,
            )

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        found = (await self._api.call("files_info", file=file.id))["file"]
        async with aclosing(self._api.download(found["url_private"])) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _hear(self, socket: "aiohttp.ClientWebSocketResponse", sink: Sink) -> None:
        """Store what comes until Slack wants another connection."""
        import aiohttp

        while True:
            self._backlog.hear()
            try:
                frame = await socket.receive(timeout=BEAT_S)
            except TimeoutError:
                await sink.store()
                continue
            if frame.type is not aiohttp.WSMsgType.TEXT:
                raise Unreachable(f"slack closed the connection ({socket.close_code})")
            envelope = json_object(frame.data) or {}
            kind, reason = envelope.get("type", ""), envelope.get("reason")
            if kind == "disconnect":
                if reason in _REFRESH:
                    return
                raise Unreachable(f"slack closed the connection ({reason})")
            await self._store(sink, await self._read(kind, envelope.get("payload") or {}))
            if envelope_id := envelope.get("envelope_id"):
                await socket.send_json({"envelope_id": envelope_id})

    async def _catch_up(self, sink: Sink) -> None:
        self._backlog.load(sink.cursor)
        async for message in self._backlog.read():
            await self._store(sink, await self._read("history", message))

    async def _read(self, kind: str, payload: Json) -> Event | None:
        """Read a payload; None for an unreadable one."""
        with passing_over(f"{kind} of slack"):
            return await self._events.read(kind, payload)
        return None

    async def _store(self, sink: Sink, event: Event | None) -> None:
        cursor = self._backlog.note(event) if isinstance(event, MessageEvent) else ""
        await sink.store(Received((event,), cursor) if event is not None else Received())


def _body(content: Content) -> dict[str, Any]:
    """Return a message's text, for notifications, and its blocks, which do not show edits."""
    text = to_mrkdwn(content.text)
    sections = [text[at : at + SECTION_UNITS] for at in range(0, len(text), SECTION_UNITS)]
    blocks: list[dict[str, Any]] = [
        # Not verbatim, words such as @channel would be mentions.
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": each, "verbatim": True},
            "expand": True,
        }
        for each in sections
    ]
    if content.buttons:
        buttons = [
            {
                "type": "button",
                "action_id": f"hermes-{number}",
                "text": {"type": "plain_text", "text": each.label[:LABEL_CHARS]},
                "value": each.data,
            }
            for number, each in enumerate(content.buttons)
        ]
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": text, "blocks": blocks}
