"""What was written while nobody listened: Slack repeats events for some minutes only."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from gateway_service.errors import Refused
from gateway_service.messages import MessageEvent
from gateway_service.platforms.base import Json, Recent
from gateway_service.platforms.slack.api import SlackApi
from services.clock import Clock
from services.validation import decode

GAP_S = 60.0
"""How long nothing may be heard before Slack is asked what was written meanwhile."""
OLDEST = timedelta(days=1)
MOST_PLACES = 50
PAGE = 100
MOST_MESSAGES = 2000


class Backlog:
    """Asks for the messages that follow the last known ones of the chats and threads used last."""

    def __init__(self, api: SlackApi, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._last = Recent[str, str](MOST_PLACES)
        """The id of the last message by place: `channel`, or `channel:thread`."""
        self._unread: dict[str, str] = {}
        self._heard_at = float("-inf")

    def load(self, cursor: str) -> None:
        """Load what `note` has returned, and find out whether anything may be missing."""
        self._last.clear()
        with suppress(msgspec.DecodeError):
            self._last.update(decode(cursor or "{}", dict[str, str]))
        if self._clock.monotonic() - self._heard_at > GAP_S:
            self._unread = {**self._last, **self._unread}
            self.hear()  # what is read by then is not read again, should reading break off

    def hear(self) -> None:
        """Note that the connection is alive."""
        self._heard_at = self._clock.monotonic()

    def note(self, event: MessageEvent) -> str:
        """Note a message; return the cursor to store with it."""
        source = event.source
        if event.message_id and not event.edits:
            places = [source.chat_id, f"{source.chat_id}:{source.thread_id}"]
            for place in places[: 2 if source.thread_id else 1]:
                self._last[place] = max(self._last.get(place, ""), event.message_id)
        return msgspec.json.encode(self._last).decode()

    async def read(self) -> AsyncGenerator[Json]:
        """Yield what may have been missed, place by place, oldest first."""
        for place, last in list(self._unread.items()):
            for message in await self._after(place, last):
                yield message
            del self._unread[place]

    async def _after(self, place: str, last: str) -> list[Json]:
        channel, _, thread = place.partition(":")
        oldest = max(last, f"{(self._clock.now() - OLDEST).timestamp():.6f}")
        about: dict[str, Any] = {"channel": channel, "oldest": oldest, "limit": PAGE}
        if thread:
            about["ts"] = thread
        method = "conversations_replies" if thread else "conversations_history"
        raw = list[Json]()
        try:
            while len(raw) < MOST_MESSAGES:
                found = await self._api.call(method, **about)
                raw += found["messages"]
                about["cursor"] = (found.get("response_metadata") or {}).get("next_cursor")
                if not about["cursor"]:
                    break
        except Refused:
            return []  # the app may not read it, or it is gone
        later = [{**each, "channel": channel} for each in raw if each["ts"] > oldest]
        return sorted(later, key=lambda each: each["ts"])
