"""Receives an account's events: over Discord's gateway, and what was missed from the history."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from gateway_service.errors import OutcomeUnknown, PlatformError, RateLimited, Refused, Unreachable
from gateway_service.messages import Event, MessageEvent, Reaction
from gateway_service.platforms.base import UNREADABLE, Received, Sink, passing_over
from gateway_service.platforms.discord.client import EPHEMERAL, translated
from gateway_service.platforms.discord.events import read_interaction, read_message, read_reaction
from services.lifecycle import unbroken
from services.validation import decode

if TYPE_CHECKING:
    from discord import (
        Client,
        Guild,
        Interaction,
        Message,
        RawMessageUpdateEvent,
        RawReactionActionEvent,
    )
    from discord.abc import Messageable
    from yarl import URL

_log = logging.getLogger(__name__)

CONNECT_S = 20.0
CLOSE_S = 2.0
ANSWER_S = 3.0
"""How soon an interaction must be answered."""
CURSOR_S = 10.0
"""How often the cursor is stored while nothing is for us."""
SPARE_SESSIONS = 50
"""How many of the sessions that a bot may begin in a day are left to other programs."""
BRIEF_S = 5.0
"""A connection that ends sooner is followed by a pause."""
OVERLAP_S = 60.0
"""How much of the history is read again, as the channels are not in step."""
LONGEST_GAP_S = 86_400.0
"""How old a missed message may be."""
MOST_MISSED = 2000
"""How many messages of a channel are read from the history."""
RECENT_EDIT = timedelta(minutes=5)
MOST_ATTEMPTS = 5
"""Attempts to read a history that Discord fails to give; it must not hold up what is said now."""
MOST_PEOPLE = 50
MOST_RECENT = 500

SHOWN_CHARS = 200
"""How much of a slash command its answer repeats."""

_SAY, _UPDATE_LATER = 4, 6
_RESUMABLE = 4000
"""The code of closing with which a session may go on."""


class Cursor(Struct, frozen=True):
    """What was received so far."""

    after: int = 0
    """The newest message; ids grow with time, in all channels together."""
    people: tuple[str, ...] = ()
    """Who wrote directly last; Discord does not list such chats."""

    def passed(self, message_id: int, event: Event | None) -> "Cursor":
        people = self.people
        if event is not None and event.source.chat_type == "dm":
            person = event.source.user_id
            people = (person, *(each for each in people if each != person))[:MOST_PEOPLE]
        return Cursor(max(self.after, message_id), people)


class Listener:
    """The events of a client; those that are not stored yet outlive a call of `listen`."""

    def __init__(self, client: "Client", account_id: str, people: Sequence[str]) -> None:
        """`people` may have written directly before a cursor knows them."""
        self._client, self._account_id, self._people = client, account_id, people
        self._cursor, self._stored, self._note_at = Cursor(), "", 0.0
        self._messages = deque[tuple[int, MessageEvent | Reaction | None]]()
        self._interactions = deque["tuple[Interaction, Event]"]()
        self._missed = deque["Guild | str"]()
        """Servers and people whose history is still to be read."""
        self._is_settling, self._since, self._attempts = True, 0, 0
        self._recent = deque[str](maxlen=MOST_RECENT)
        """Events that were stored; what is live may also be in the history."""
        self._changed = asyncio.Event()
        self._session = dict[str, Any]()
        self.handlers = {
            "connect": self._begin,
            "ready": self._settle,
            "guild_available": self._miss,
            "guild_join": self._miss,
            "message": self._take_message,
            "raw_message_edit": self._take_edit,
            "raw_reaction_add": self._take_reaction,
            "interaction": self._take_interaction,
        }
        """What the client is to call for its events."""

    async def listen(self, sink: Sink) -> None:
        if not self._cursor.after and sink.cursor:
            self._cursor = decode(sink.cursor, Cursor)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._store(sink))
                group.create_task(self._follow(sink))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _begin(self) -> None:
        """Begin a new session: what came before it is only in the history."""
        after = self._cursor.after or _ago(0)
        self._cursor = Cursor(after, self._cursor.people)
        self._since = after - _ids(OVERLAP_S)
        self._is_settling = True

    def _settle(self) -> None:
        """Begin with the history, as our servers are known now."""
        people = dict.fromkeys((*self._cursor.people, *self._people))
        self._missed = deque([*filter(str.isdecimal, people), *self._client.guilds])
        self._is_settling = False
        self._changed.set()

    def _miss(self, guild: "Guild") -> None:
        if not self._is_settling:
            self._missed.append(guild)
            self._changed.set()

    def _take_message(self, message: "Message") -> None:
        self._messages.append((message.id, read_message(message, self._account_id)))
        self._changed.set()

    def _take_edit(self, update: "RawMessageUpdateEvent") -> None:
        from discord.utils import utcnow

        # Discord also announces previews of links and pins in this way.
        edited_at = update.message.edited_at
        if edited_at is not None and edited_at > utcnow() - RECENT_EDIT:
            event = read_message(update.message, self._account_id, is_new=False)
            self._messages.append((0, event))
            self._changed.set()

    def _take_reaction(self, added: "RawReactionActionEvent") -> None:
        known = self._client.get_channel(added.channel_id)
        channel = known or self._client.get_partial_messageable(
            added.channel_id, guild_id=added.guild_id
        )
        if (event := read_reaction(added, channel, self._account_id)) is not None:
            self._messages.append((0, event))
            self._changed.set()

    def _take_interaction(self, interaction: "Interaction") -> None:
        event = read_interaction(interaction, self._account_id)
        if event is not None:
            self._interactions.append((interaction, event))

    async def _store(self, sink: Sink) -> None:
        """Store messages in order, first those that were missed."""
        while True:
            while self._missed and not self._is_settling:
                place = self._missed[0]
                try:
                    async with translated(None):
                        await self._catch_up(place, sink)
                except RateLimited as error:
                    await asyncio.sleep(error.wait_s)
                    continue
                except OutcomeUnknown as error:
                    self._attempts += 1
                    if self._attempts < MOST_ATTEMPTS:
                        raise
                    _log.error("the history of %s is given up: %s", place, error)
                self._attempts = 0
                if self._missed and self._missed[0] is place:
                    self._missed.popleft()
            if self._messages and not self._is_settling:
                message_id, event = self._messages[0]
                cursor = self._cursor.passed(message_id, event)
                if event is not None:
                    await self._put(sink, cursor, event)
                self._cursor = cursor
                self._messages.popleft()
                continue
            self._changed.clear()
            await self._changed.wait()

    async def _catch_up(self, place: "Guild | str", sink: Sink) -> None:
        """Store what people said in a server or directly since the last session."""
        from discord import Object

        after = Object(max(self._since, _ago(LONGEST_GAP_S)))
        for channel in await self._channels(place, after.id):
            try:
                async for message in channel.history(limit=MOST_MISSED, after=after):
                    if event := read_message(message, self._account_id):
                        await self._put(sink, self._cursor.passed(0, event), event)
            except Refused as error:
                _log.info("the history of %s is not read: %s", channel, error)
            except UNREADABLE as error:
                _log.error("the history of %s cannot be read: %r", channel, error)

    async def _channels(self, place: "Guild | str", after: int) -> "Sequence[Messageable]":
        from discord import Object

        if isinstance(place, str):
            try:
                return [await self._client.create_dm(Object(int(place)))]
            except Refused as error:
                _log.info("%s cannot be written to: %s", place, error)
                return []
        voice = (*place.voice_channels, *place.stage_channels)
        channels = (*place.text_channels, *voice, *place.threads)
        return [each for each in channels if (each.last_message_id or 0) > after]

    async def _put(self, sink: Sink, cursor: Cursor, *events: Event) -> None:
        """Store events with a cursor, which stays behind while some history is not read."""
        events = tuple(each for each in events if each.event_id not in self._recent)
        text = msgspec.json.encode(cursor).decode()
        is_behind = (
            self._is_settling
            or self._missed
            or any(each.unavailable for each in self._client.guilds)
        )
        await sink.store(Received(events, "" if is_behind or text == self._stored else text))
        self._recent += [each.event_id for each in events]
        self._stored = self._stored if is_behind else text
        self._cursor = cursor

    async def _follow(self, sink: Sink) -> None:
        """Receive over the gateway, and go on in the same session if the connection breaks."""
        from discord.gateway import ReconnectWebSocket

        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                async with translated(None):
                    await self._receive(sink)
            except ReconnectWebSocket as asked:
                self._session = self._session if asked.resume else {}
            if loop.time() - began < BRIEF_S:
                raise Unreachable("discord closed the connection at once")

    async def _receive(self, sink: Sink) -> None:
        from discord.gateway import DiscordWebSocket

        socket = None
        try:
            async with asyncio.timeout(CONNECT_S):
                session: dict[str, Any] = self._session or {"gateway": await self._find_gateway()}
                socket = await DiscordWebSocket.from_client(self._client, initial=True, **session)
            self._client.ws = socket
            while True:
                await self._put_interactions(sink)
                with passing_over("an event of discord"):
                    await socket.poll_event()
                await self._note(sink)
        finally:
            if socket is not None:
                place = {"gateway": socket.gateway, "sequence": socket.sequence}
                session = {**place, "session": socket.session_id, "resume": True}
                self._session = session if socket.session_id else {}
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await socket.close(_RESUMABLE)

    async def _find_gateway(self) -> "URL":
        from discord.http import Route
        from yarl import URL

        found = await self._client.http.request(Route("GET", "/gateway/bot"))
        limit = found["session_start_limit"]
        if limit["remaining"] <= SPARE_SESSIONS:
            # Discord takes the token away from bots that begin too many.
            wait_s = limit["reset_after"] / 1000
            raise RateLimited("discord lets this bot begin no more sessions yet", wait_s)
        return URL(found["url"])

    async def _note(self, sink: Sink) -> None:
        """Note that something came, at least a heartbeat's answer, and at times how far we are."""
        now = asyncio.get_running_loop().time()
        if self._is_settling:
            return
        if now < self._note_at:
            await sink.store()
            return
        self._note_at = now + CURSOR_S
        await self._put(sink, self._cursor)

    async def _put_interactions(self, sink: Sink) -> None:
        """Store interactions, and only then show the person that they arrived."""
        while self._interactions:
            interaction, event = self._interactions[0]
            await sink.store(Received((event,)))
            self._interactions.popleft()
            # Stored, so it is answered even if the account is given up now.
            await unbroken(self._answer(interaction, event))

    async def _answer(self, interaction: "Interaction", event: Event) -> None:
        """Show that a press or a command has arrived; of a command only to the person."""
        from discord.http import Route

        answer: dict[str, Any] = {"type": _UPDATE_LATER}
        if isinstance(event, MessageEvent):
            answer = {
                "type": _SAY,
                "data": {"content": event.text[:SHOWN_CHARS], "flags": EPHEMERAL},
            }
        path = "/interactions/{id}/{token}/callback"
        route = Route("POST", path, id=interaction.id, token=interaction.token)
        try:
            async with translated(ANSWER_S):
                await self._client.http.request(route, json=answer)
        except PlatformError as error:
            _log.info("an interaction is not answered: %s", error)


def _ids(seconds: float) -> int:
    """Return by how much the ids of messages grow in a time."""
    return int(seconds * 1000) << 22


def _ago(seconds: float) -> int:
    """Return the id that a message of that long ago has."""
    from discord.utils import time_snowflake, utcnow

    return time_snowflake(utcnow()) - _ids(seconds)
