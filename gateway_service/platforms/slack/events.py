"""Converts what Slack sends to events."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from gateway_service.errors import PlatformError, Refused
from gateway_service.messages import (
    ButtonPress,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
    find_kind,
)
from gateway_service.platforms.base import THUMBS, Recent
from gateway_service.platforms.slack.api import NAME, SlackApi
from gateway_service.platforms.slack.mrkdwn import mentioned, to_markdown
from gateway_service.platforms.slack.payloads import (
    Callback,
    Command,
    File,
    Interaction,
    Message,
    ReactionAdded,
    read,
    read_message,
)
from services.clock import Clock
from services.validation import object_of

COMMAND = "/hermes"
MOST_KNOWN = 2000
"""People, channels and threads that are remembered."""
FOREIGN_S = 60.0
"""How long a thread counts as one that we have no part in."""
EARLIER = 20
"""Messages of a thread that are quoted when somebody mentions us in it."""
QUOTE_CHARS = 2000

_SPOKEN = ("", "file_share", "me_message", "thread_broadcast")
"""Subtypes of what people write."""


class EventReader:
    """Reads Slack's events; to read one, it may have to ask Slack."""

    def __init__(self, api: SlackApi, clock: Clock, *, reply_in_thread: bool) -> None:
        self.me = ""
        """Our user id, as far as it is known; most events tell it."""
        self._api, self._clock = api, clock
        self._reply_in_thread = reply_in_thread
        self._names = Recent[str, str](MOST_KNOWN)
        self._threads = Recent[tuple[str, str], float](MOST_KNOWN)
        """When a thread's next message is to be looked at; infinite for our own threads."""

    async def read(self, kind: str, payload: Mapping[str, Any]) -> Event | None:
        """Read a payload of Socket Mode's kinds, or raise msgspec.ValidationError."""
        event_type = object_of(payload.get("event")).get("type")
        match kind, payload.get("type"):
            case "slash_commands", _:
                return _read_command(read(payload, Command))
            case "interactive", "block_actions":
                return _read_press(read(payload, Interaction))
            case "events_api", "event_callback" if event_type == "reaction_added":
                return _read_reaction(read(payload["event"], ReactionAdded))
            case "events_api", "event_callback":
                callback = read(payload, Callback)
                bots = (each.user_id for each in callback.authorizations if each.is_bot)
                self.me = next(bots, self.me)
                is_message = event_type in ("message", "app_mention")
                message = read_message(callback.event)
                return await self.read_message(message) if is_message else None
            case _:
                return None

    async def read_message(self, message: Message) -> MessageEvent | None:
        """Read a message; None unless a person means us."""
        changed, before = message.message, message.previous_message
        if message.subtype != "message_changed" or changed is None:
            return await self._read_version(message)
        if changed.edited is None or (before is not None and before.text == changed.text):
            return None  # a link was shown, or the thread grew
        here = {"channel": message.channel, "channel_type": message.channel_type}
        was_meant = before is None or await self._read_version(replace(before, **here)) is not None
        event = await self._read_version(replace(changed, **here))
        if event is None or not was_meant:
            return event  # a mention that was added makes it a new message
        event_id = f"{event.event_id}:{changed.edited.ts}"
        return replace(event, event_id=event_id, edits=event.message_id)

    async def _read_version(self, message: Message) -> MessageEvent | None:
        is_person = message.user not in ("", "USLACKBOT", self.me) and not message.bot_id
        has_place = message.channel and message.ts
        if not (is_person and has_place) or message.subtype not in _SPOKEN:
            return None
        is_dm = message.channel_type == "im" or message.channel.startswith("D")
        quotes = () if is_dm else await self._quote_thread(message)
        if quotes is None:
            return None
        forwarded = [each for each in message.attachments if each.is_share and each.text]
        return MessageEvent(
            f"{message.channel}:{message.ts}",
            await self._source(message, is_dm=is_dm),
            await self._words(re.sub(rf"<@{self.me}(\|[^>]*)?>", "", message.text)),
            replies_to=message.thread,
            quotes=(
                *quotes,
                *[Quote(await self._words(one.text), one.author_name, True) for one in forwarded],
            ),
            files=tuple(_remote_file(each) for each in message.files),
            message_id=message.ts,
        )

    def join(self, channel: str, thread: str) -> None:
        """Note that we take part in a thread."""
        self._threads[channel, thread] = float("inf")

    async def _quote_thread(self, message: Message) -> tuple[Quote, ...] | None:
        """Return what was said in a channel's thread before we take part; None if we are not meant.

        We are meant by mentions, and by everything in threads in which we take part.
        """
        is_mention = self.me in mentioned(message.text)
        channel, thread = message.channel, message.thread
        if not thread:
            if is_mention:
                self.join(channel, message.ts)
            return () if is_mention else None
        look_at, now = self._threads.get((channel, thread), 0.0), self._clock.monotonic()
        if message.parent_user_id == self.me or look_at == float("inf"):
            return ()
        if look_at > now and not is_mention:
            return None
        earlier = await self._earlier(message)
        is_ours = any(each.user == self.me or self.me in mentioned(each.text) for each in earlier)
        if not is_ours and not is_mention:
            self._threads[channel, thread] = now + FOREIGN_S
            return None
        self.join(channel, thread)
        if is_ours:
            return ()
        said = [each for each in earlier[-EARLIER:] if each.text]
        return tuple([await self._quote(each) for each in said])

    async def _earlier(self, message: Message) -> Sequence[Message]:
        try:
            found = await self._api.look_up(
                "conversations_replies", channel=message.channel, ts=message.thread, limit=200
            )
        except Refused:
            return ()  # the app may not read the channel
        replies = [read_message(each) for each in found["messages"]]
        return [each for each in replies if each.ts < message.ts]

    async def _quote(self, message: Message) -> Quote:
        words = (await self._words(message.text))[:QUOTE_CHARS]
        return Quote(words, await self._name(message.user), is_forwarded=False)

    async def _source(self, message: Message, *, is_dm: bool) -> Source:
        thread = message.thread
        if not is_dm and not thread and self._reply_in_thread:
            thread = message.ts
        name = await self._name(message.user)
        source = _source(message.channel, message.user, name, thread, is_dm=is_dm)
        return source if is_dm else replace(source, chat_name=await self._name(message.channel))

    async def _words(self, text: str) -> str:
        names = {each: await self._name(each) for each in mentioned(text)}
        return to_markdown(text, names).strip()

    async def _name(self, of: str) -> str:
        """Return the name of a person or channel; empty if Slack does not tell it."""
        if of and of not in self._names:
            found: dict[str, Any] = {}
            try:
                if of.startswith(("C", "G")):
                    found = (await self._api.look_up("conversations_info", channel=of))["channel"]
                else:
                    found = (await self._api.look_up("users_info", user=of))["user"]
            except Refused:
                pass  # as without its scope
            except PlatformError:
                return ""
            name = found.get("profile", {}).get("display_name") or found.get("real_name")
            self._names[of] = name or found.get("name", "")
        return self._names.get(of, "")


def _source(channel: str, user: str, name: str, thread: str = "", *, is_dm: bool = False) -> Source:
    is_dm = is_dm or channel.startswith("D")
    chat_type = "dm" if is_dm else "thread" if thread else "channel"
    return Source(NAME, channel, thread, user, name, chat_type)


def _read_command(command: Command) -> MessageEvent:
    """Read a slash command: `/hermes new` is `/new`."""
    text = command.text.strip()
    if command.command == COMMAND:
        said = text if text.startswith("/") else f"/{text or 'help'}"
    else:
        said = f"{command.command} {text}".strip()
    source = _source(command.channel_id, command.user_id, command.user_name)
    return MessageEvent(command.trigger_id, source, said)


def _read_press(found: Interaction) -> ButtonPress | None:
    if not found.actions:
        return None
    place, user, action = found.container, found.user, found.actions[0]
    source = _source(place.channel_id, user.id, user.name or user.username, place.thread_ts)
    event_id = f"{place.channel_id}:{place.message_ts}:{action.action_ts}:{user.id}"
    return ButtonPress(event_id, source, found.trigger_id, action.value)


def _read_reaction(found: ReactionAdded) -> Reaction | None:
    emoji, item = THUMBS.get(found.reaction.partition("::")[0]), found.item
    if emoji is None or not item.ts:
        return None
    event_id = f"{item.channel}:{item.ts}:{found.event_ts}:{found.user}"
    return Reaction(event_id, _source(item.channel, found.user, ""), item.ts, emoji)


def _remote_file(file: File) -> RemoteFile:
    kind = FileKind.VOICE if file.subtype == "slack_audio" else find_kind(file.mimetype)
    return RemoteFile(kind, file.id, file.name, file.mimetype, file.size)
