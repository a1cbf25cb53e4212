"""Recalls what an external memory knows, and gives it what was said, without holding turns up."""

import asyncio
import json
import logging
import re
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from agent_service.profiles.memory.provider import (
    SYNC_S,
    ExternalMemory,
    ProviderFailed,
    Said,
    Scope,
)
from agent_service.records.commands import Recalled
from agent_service.records.sandbox import Opening
from agent_service.records.sent_history import with_recalled
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import memory_sync, sessions
from services.database import Database
from services.errors import DatabaseUnavailable

BATCH = 100
LOOK_S = 60.0
"""The interval at which failed syncs are tried again."""

_FENCED = re.compile(
    r"\[Untrusted data ([0-9a-f]{12}) from [^\]\n]*\]\n.*?(?:\n\[End of untrusted data \1\]|\Z)",
    re.DOTALL,
)
_log = logging.getLogger(__name__)


class Recall(Struct, frozen=True):
    """Asks an external memory what fits a message, once before its first model call."""

    external: ExternalMemory

    async def __call__(self, turn: LiveTurn) -> Recalled | None:
        # A session's first message has the provider's block in the prompt.
        if turn.model_calls or turn.message_count < 2 or not turn.request.is_of_one_person:
            return None
        if with_recalled(turn.messages[-1], "") is None:
            return None  # recalled before a restart
        scope = Scope(turn.profile, turn.session_id)
        query = _FENCED.sub("", _words(turn.messages[-1]))
        text = await self.external.recall(scope, query, turn.toolsets)
        message = with_recalled(turn.messages[-1], text) if text else None
        return None if message is None else Recalled(message)


class MemorySync:
    """Gives an external memory what was said, in the background.

    Of a session that has read what strangers wrote, it gets the person's own words only: nothing
    that a stranger planted may outlast the session unasked.
    """

    def __init__(
        self, database: Database, external: ExternalMemory, *, guards_strangers: bool
    ) -> None:
        self._database = database
        self._external, self._provider = external, external.provider
        self._guards_strangers = guards_strangers
        self._waiting: dict[str, str] = {}
        """Profiles by session."""
        self._left: dict[str, str] = {}
        """Sessions that a person has left, and their profiles."""
        self._wake, self._knows_earlier = asyncio.Event(), False
        self._one_at_a_time = asyncio.Lock()

    def record(self, conn: Connection, transition: Transition) -> None:
        """Mark the session of a turn whose end is stored."""
        turn = transition.turn
        if transition.after.finished is not None and self._takes(turn):
            memory_sync.mark(conn, turn.session_id)

    async def after(self, turn: LiveTurn) -> None:
        """Begin to sync the session of an ended turn."""
        if self._takes(turn):
            self._waiting[turn.session_id] = turn.profile
            self._wake.set()

    async def run(self) -> None:
        """Sync what is due, until cancelled."""
        if not self._external.is_on:
            return
        async with self._external.connected():
            while True:
                await self._look()

    async def _look(self) -> None:
        self._wake.clear()
        try:
            if not self._knows_earlier:
                self._waiting |= dict(await self._database.read(memory_sync.due))
                self._knows_earlier = True
            await self._sync_all()
            await self._end_left()
        except DatabaseUnavailable as error:
            _log.warning("%s is not told what was said yet: %s", self._external.name, error)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()

    def end(self, profile: str, session_id: str) -> None:
        """Note that a person has left a session; the provider is told after the rest of it."""
        if self._external.is_on:
            self._left[session_id] = profile
            self._wake.set()

    async def _end_left(self) -> None:
        for session_id, profile in list(self._left.items()):
            if session_id in self._waiting or self._external.rests:
                continue
            del self._left[session_id]
            its = partial(memory_sync.has_synced, session_id=session_id, profile=profile)
            if not await self._database.read(its):
                continue
            ended = partial(self._provider.on_session_end, Scope(profile, session_id))
            try:
                await self._external.call(ended, SYNC_S)
            except ProviderFailed as error:
                _log.warning("%s is not told that a session ended: %s", self._external.name, error)

    def _takes(self, turn: LiveTurn) -> bool:
        return turn.request.is_of_one_person and self._external.serves(turn.toolsets)

    async def _sync_all(self) -> None:
        for session_id, profile in list(self._waiting.items()):
            if self._external.rests:
                return
            del self._waiting[session_id]
            try:
                await self._sync(session_id, profile)
            except (ProviderFailed, DatabaseUnavailable) as error:
                self._waiting[session_id] = profile
                _log.warning("%s is told later what was said: %s", self._external.name, error)

    async def _sync(self, session_id: str, profile: str) -> None:
        async with self._one_at_a_time:
            if not await self._database.write(lambda conn: memory_sync.claim(conn, session_id)):
                return
            try:
                await self._send(Scope(profile, session_id))
            except BaseException:
                await self._database.write(lambda conn: memory_sync.mark(conn, session_id))
                raise

    async def _send(self, scope: Scope) -> None:
        while found := await self._database.read(lambda conn: self._unsynced(conn, scope)):
            said, last = found
            if said:
                await self._external.call(partial(self._provider.sync, scope, said), SYNC_S)
            note = partial(memory_sync.note, session_id=scope.session_id, last=last)
            await self._database.write(note)

    def _unsynced(
        self, conn: Connection, scope: Scope
    ) -> tuple[list[Said], memory_sync.SyncedMessage] | None:
        """Return what to send next, and the last message that this covers; None at the end."""
        found = memory_sync.unsynced(conn, scope.session_id, BATCH)
        read = sessions.get_state(conn, scope.session_id, sessions.TAINT) or ()
        has_strangers = not {*map(str, Opening)}.issuperset(read)
        only_user = has_strangers and self._guards_strangers
        said = [
            Said(text, each.is_user, each.created_at)
            for each in found
            if (each.is_user or not only_user) and (text := _FENCED.sub("", each.text).strip())
        ]
        return (said, found[-1]) if found else None


def _words(message: bytes) -> str:
    said: dict[str, Any] = json.loads(message)
    content = said["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")
