"""Converts what Slack sends to events."""

import re
from collections.abc import Sequence
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
from gateway_service.platforms.base import THUMBS, Json, Recent, command_in
from gateway_service.platforms.slack.api import NAME, SlackApi
from gateway_service.platforms.slack.mrkdwn import mentioned, to_markdown
from services.clock import Clock

COMMAND = "/hermes"
MOST_KNOWN = 2000
"""People, channels and threads that are remembered."""
FOREIGN_S = 60.0
"""How long a thread counts as one that we have no part in."""
EARLIER = 20
"""Messages of a thread that are quoted when somebody mentions us in it."""
QUOTE_CHARS = 2000

_SPOKEN = (None, "", "file_share", "me_message", "thread_broadcast")
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

    async def read(self, kind: str, payload: Json) -> Event | None:
        """Read a payload of Socket Mode's kinds, or a message of the history; raises UNREADABLE."""
        event: Json = payload.get("event") or {}
        match kind, payload.get("type"), event.get("type"):
            case "history", _, _:
                return await self._read_message(payload)
            case "slash_commands", _, _:
                return _read_command(payload)
            case "interactive", "block_actions", _:
                return _read_press(payload)
            case "events_api", "event_callback", "reaction_added":
                return _read_reaction(event)
            case "events_api", "event_callback", "message" | "app_mention":
                apps = payload.get("authorizations") or ()
                self.me = next((each["user_id"] for each in apps if each.get("is_bot")), self.me)
                return await self._read_message(event)
            case _:
                return None

    async def _read_message(self, message: Json) -> MessageEvent | None:
        """Read a message; None unless a person means us."""
        if message.get("subtype") != "message_changed":
            return await self._read_version(message)
        changed, before = message["message"], message.get("previous_message")
        edited = changed.get("edited")
        if not edited or (before and before.get("text") == changed.get("text")):
            return None  # a link was shown, or the thread grew
        here = {name: message.get(name) for name in ("channel", "channel_type")}
        was_meant = not before or await self._read_version({**before, **here}) is not None
        event = await self._read_version({**changed, **here})
        if event is None or not was_meant:
            return event  # a mention that was added makes it a new message
        event_id = f"{event.event_id}:{edited['ts']}"
        return replace(event, event_id=event_id, edits=event.message_id)

    async def _read_version(self, message: Json) -> MessageEvent | None:
        is_person = message.get("user") not in (None, "", "USLACKBOT", self.me)
        if not is_person or message.get("bot_id") or message.get("subtype") not in _SPOKEN:
            return None
        channel, ts, text = message["channel"], str(message["ts"]), message.get("text") or ""
        is_dm = message.get("channel_type") == "im" or channel.startswith("D")
        quotes = () if is_dm else await self._quote_thread(message)
        if quotes is None:
            return None
        shares = [each for each in message.get("attachments") or () if each.get("is_share")]
        forwarded = [
            Quote(await self._words(each["text"]), each.get("author_name") or "", is_forwarded=True)
            for each in shares
            if each.get("text")
        ]
        return MessageEvent(
            f"{channel}:{ts}",
            await self._source(message, is_dm=is_dm),
            await self._words(re.sub(rf"<@{re.escape(self.me)}(\|[^>]*)?>", "", text)),
            replies_to=_thread(message),
            quotes=(*quotes, *forwarded),
            files=tuple(map(_remote_file, message.get("files") or ())),
            message_id=ts,
        )

    def join(self, channel: str, thread: str) -> None:
        """Note that we take part in a thread."""
        self._threads[channel, thread] = float("inf")

    async def _quote_thread(self, message: Json) -> tuple[Quote, ...] | None:
        """Return what was said in a channel's thread before we take part; None if we are not meant.

        We are meant by mentions, and by everything in threads in which we take part.
        """
        is_mention = self.me in mentioned(message.get("text") or "")
        channel, thread = message["channel"], _thread(message)
        if not thread:
            if is_mention:
                self.join(channel, message["ts"])
            return () if is_mention else None
        look_at, now = self._threads.get((channel, thread), 0.0), self._clock.monotonic()
        if message.get("parent_user_id") == self.me or look_at == float("inf"):
            return ()
        if look_at > now and not is_mention:
            return None
        earlier = await self._earlier(message)
        is_ours = any(
            each.get("user") == self.me or self.me in mentioned(each.get("text") or "")
            for each in earlier
        )
        if not is_ours and not is_mention:
            self._threads[channel, thread] = now + FOREIGN_S
            return None
        self.join(channel, thread)
        if is_ours:
            return ()
        said = [each for each in earlier[-EARLIER:] if each.get("text")]
        return tuple([await self._quote(each) for each in said])

    async def _earlier(self, message: Json) -> Sequence[Json]:
        place = {"channel": message["channel"], "ts": _thread(message)}
        try:
            found = await self._api.look_up("conversations_replies", **place, limit=200)
        except Refused:
            return ()  # the app may not read the channel
        return [each for each in found["messages"] if each["ts"] < message["ts"]]

    async def _quote(self, message: Json) -> Quote:
        words = (await self._words(message["text"]))[:QUOTE_CHARS]
        return Quote(words, await self._name(message.get("user") or ""), is_forwarded=False)

    async def _source(self, message: Json, *, is_dm: bool) -> Source:
        channel, user, thread = message["channel"], message["user"], _thread(message)
        if not is_dm and not thread and self._reply_in_thread:
            thread = message["ts"]
        source = _source(channel, user, await self._name(user), thread, is_dm=is_dm)
        return source if is_dm else replace(source, chat_name=await self._name(channel))

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


def _thread(message: Json) -> str:
    """Return the thread that a message replies in; empty for a thread's first message."""
    thread = message.get("thread_ts") or ""
    return "" if thread == message["ts"] else thread


def _read_command(command: Json) -> MessageEvent:
    """Read a slash command: `/hermes new` is `/new`."""
    name, text = command["command"], command.get("text") or ""
    said = command_in(text if name == COMMAND else f"{name} {text}")
    source = _source(command["channel_id"], command["user_id"], command.get("user_name") or "")
    return MessageEvent(command["trigger_id"], source, said)


def _read_press(found: Json) -> ButtonPress:
    place, user, action = found["container"], found["user"], found["actions"][0]
    channel, name = place["channel_id"], user.get("name") or user.get("username") or ""
    source = _source(channel, user["id"], name, place.get("thread_ts") or "")
    event_id = f"{channel}:{place['message_ts']}:{action['action_ts']}:{user['id']}"
    return ButtonPress(event_id, source, found.get("trigger_id") or "", action["value"])


def _read_reaction(found: Json) -> Reaction | None:
    emoji, item, user = (
        THUMBS.get(found["reaction"].partition("::")[0]),
        found["item"],
        found["user"],
    )
    if emoji is None or not item.get("ts"):
        return None
    channel, ts = item["channel"], item["ts"]
    return Reaction(
        f"{channel}:{ts}:{found['event_ts']}:{user}", _source(channel, user, ""), ts, emoji
    )


def _remote_file(file: Json) -> RemoteFile:
    mime = file.get("mimetype") or ""
    kind = FileKind.VOICE if file.get("subtype") == "slack_audio" else find_kind(mime)
    return RemoteFile(kind, file["id"], file.get("name") or "", mime, file.get("size") or 0)
