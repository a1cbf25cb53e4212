"""Mattermost: events over its WebSocket, and what was missed by the posts since then."""

import json
import logging
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from gateway_service.errors import ChatMoved, MessageGone, OutcomeUnknown, Refused, Unreachable
from gateway_service.messages import Content, Event, RemoteFile
from gateway_service.platforms.base import (
    UNREADABLE,
    Destination,
    Json,
    Received,
    Sink,
    Traits,
    in_place,
)
from gateway_service.platforms.http_api import HttpPlatform
from gateway_service.platforms.mattermost.posts import NAME, MattermostApi, Person, PostReader
from gateway_service.platforms.rate_limits import Rate
from services.validation import object_of

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

_log = logging.getLogger(__name__)

PING_S = 15.0
CURSOR_S = 10.0
"""How often the cursor is stored while nothing is for us."""
OVERLAP_MS = 10_000
"""How much is read again, as posts appear a little later than their times say."""
FIRST_MS = 60_000
"""How old the posts may be that are read first."""
LONGEST_GAP_MS = 86_400_000
MOST_RECENT = 500

_EVERYBODY = re.compile(r"@(?=(?:all|channel|here)\b)", re.IGNORECASE)
_ROOT_GONE = "root_id.app_error)"
_TOLD = {"posted": "post", "post_edited": "post", "reaction_added": "reaction"}
"""The events that are read, with the fields that tell of them."""


class MattermostPlatform(HttpPlatform[MattermostApi]):
    """A bot's account."""

    name = NAME
    traits = Traits(
        message_units=16_000,
        length=len,
        rate=Rate(per_second=5.0, burst=10),
        repeats_safely_s=25.0,
        buttons=0,
        caption_units=16_000,
        file_bytes=50_000_000,
        album_pictures=10,
        markup="Mattermost shows Markdown with tables and headings.",
    )

    def __init__(self, url: str, token: str, ping_s: float = PING_S) -> None:
        self.account_id = url.partition("//")[2].rstrip("/")
        self._api, self._ping_s = MattermostApi(url, token), ping_s
        self._me = Person("", "", is_bot=True)
        self._reader = PostReader(self._api, self._me)
        self._after, self._stored, self._note_at = 0, 0, 0.0
        self._recent = deque[str](maxlen=MOST_RECENT)
        """Events that were stored; what is live may also be among the posts that were missed."""

    async def _log_in(self) -> None:
        me = await self._api.get("/users/me")
        self._me = Person(me["id"], me["username"], is_bot=True)
        self._reader = PostReader(self._api, self._me)
        self.identity = f"@{me['username']}"

    async def listen(self, sink: Sink) -> None:
        now = int(time.time() * 1000)
        self._after = int(sink.cursor or now - FIRST_MS)
        async with self._api.socket("/websocket") as socket:
            await self._catch_up(sink, max(self._after - OVERLAP_MS, now - LONGEST_GAP_MS))
            await self._follow(sink, socket)

    async def _catch_up(self, sink: Sink, since: int) -> None:
        """Store the posts since a time, in milliseconds, of all our channels."""
        found: list[Json] = []
        for channel in await self._api.get("/users/me/channels"):
            if channel["last_post_at"] > since:
                posts = await self._posts(channel["id"], since)
                found += [each for each in posts if each.get("create_at", 0) > since]
        for post in sorted(found, key=lambda each: each["create_at"]):
            await self._take(sink, "posted", post)

    async def _posts(self, channel_id: str, since: int) -> Sequence[Json]:
        try:
            found = await self._api.get(f"/channels/{channel_id}/posts?since={since}")
        except (MessageGone, Refused) as error:
            _log.info("the posts of %s are not read: %s", channel_id, error)
            return []
        return list(found["posts"].values())

    async def _follow(self, sink: Sink, socket: "ClientWebSocketResponse") -> None:
        """Store what the server tells; after a gap or a silence begin anew."""
        expected = 0
        while True:
            frame = await _next_frame(socket, self._ping_s)
            await self._note(sink)
            if (event := frame.get("event")) is None:
                continue  # the answer to a ping
            if frame.get("seq") != expected:
                raise OutcomeUnknown("mattermost left out an event")
            expected += 1
            if event in _TOLD:
                await self._take(sink, event, object_of(frame.get("data")).get(_TOLD[event]))

    async def _take(self, sink: Sink, kind: str, told: Any) -> None:
        """Store an event; what cannot be read is passed over."""
        after = self._after
        try:
            found: Json = json.loads(told) if isinstance(told, str) else told
            if kind == "reaction_added":
                event = await self._reader.read_reaction(found)
            else:
                event = await self._reader.read(found, is_new=kind == "posted")
                after = max(after, found["create_at"])
        except (MessageGone, Refused, *UNREADABLE) as error:
            _log.warning("%s of mattermost is passed over: %r", kind, error)
            return
        self._after = after
        if event is not None and event.event_id not in self._recent:
            await self._put(sink, event)
            self._recent.append(event.event_id)

    async def _note(self, sink: Sink) -> None:
        """Note that something came, and from time to time how far we are."""
        if time.monotonic() < self._note_at:
            await sink.store()
            return
        self._note_at = time.monotonic() + CURSOR_S
        await self._put(sink)

    async def _put(self, sink: Sink, *events: Event) -> None:
        cursor = "" if self._after == self._stored else str(self._after)
        await sink.store(Received(events, cursor))
        self._stored = self._after

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        try:
            return await in_place(
                destination,
                lambda error: error.message.endswith(_ROOT_GONE),
                lambda place: self._create(place, content, key),
            )
        except Refused as error:
            # Channels and people have ids of the same form.
            two = [self._me.id, destination.chat_id]
            try:
                chat = await self._api.call("POST", "/channels/direct", json=two)
            except (MessageGone, Refused):
                raise error from None
        raise ChatMoved(f"mattermost: {destination.chat_id} is a person", chat["id"])

    async def _create(self, destination: Destination, content: Content, key: str) -> str:
        file_ids = [
            await self._api.upload(destination.chat_id, each.name, each.data)
            for each in content.attachments
        ]
        post = {
            "channel_id": destination.chat_id,
            "root_id": destination.thread_id,
            "message": _quiet(content.text),
            "file_ids": file_ids,
            # By this the server recognizes a repeat.
            "pending_post_id": f"{self._me.id}:{key}",
        }
        try:
            return (await self._api.call("POST", "/posts", json=post))["id"]
        except MessageGone as error:
            raise Refused(error.message) from error

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        body = {"message": _quiet(content.text)}
        await self._api.call("PUT", f"/posts/{message_id}/patch", json=body)

    async def typing(self, destination: Destination) -> None:
        place = {"channel_id": destination.chat_id, "parent_id": destination.thread_id}
        await self._api.call("POST", "/users/me/typing", json=place)

    def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        return self._api.download(f"/files/{file.id}")


async def _next_frame(socket: "ClientWebSocketResponse", ping_s: float) -> dict[str, Any]:
    """Return what the server says next, at least that it is there."""
    for _ in range(2):
        try:
            message = await socket.receive(ping_s)
        except TimeoutError:
            await socket.send_json({"action": "ping", "seq": 1})
            continue
        try:
            return message.json()
        except (TypeError, ValueError) as error:
            raise Unreachable("mattermost closed the connection") from error
    raise OutcomeUnknown("mattermost does not answer any more")


def _quiet(text: str) -> str:
    """Return a text that notifies nobody but the people it names."""
    return _EVERYBODY.sub("@\u200b", text)
