"""Recalls what an external memory knows, and gives it what was said, without holding turns up."""

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.profiles.memory.provider import (
    SYNC_S,
    ExternalMemory,
    ProviderFailed,
    Scope,
    Utterance,
)
from agent_service.records.commands import Recalled
from agent_service.records.sandbox import Opening
from agent_service.records.sent_history import with_recalled
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage.schema import message, session, session_state, turn
from agent_service.storage.sessions import TAINT, get_state, put_state
from services.database import Database
from services.errors import DatabaseUnavailable

BATCH = 100
LOOK_S = 60.0
"""The interval at which failed syncs are tried again."""
DUE = "memory_due"
"""The session value that says that something was said since the last sync."""
THROUGH = "memory_through"
"""The session value with the time and number of the last message that was taken in."""

_FENCED = re.compile(
    r"\[Untrusted data ([0-9a-f]{12}) from [^\]\n]*\]\n.*?(?:\n\[End of untrusted data \1\]|\Z)",
    re.DOTALL,
)
_DUE = (
    sa.select(session.c.id, session.c.profile)
    .join(session_state, session_state.c.session_id == session.c.id)
    .where(session_state.c.name == DUE)
)
_SAID = (
    sa.select(message.c.sequence, message.c.created_at, message.c.content, turn.c.request)
    .join(turn, turn.c.id == message.c.turn_id)
    .where(
        message.c.role.in_(("user", "assistant")),
        turn.c.kind == "user",
        turn.c.finished_at.is_not(None),
    )
    .order_by(message.c.created_at, message.c.sequence)
    .limit(BATCH)
)
_log = logging.getLogger(__name__)


class Recall(Struct, frozen=True):
    """Asks an external memory what fits a message, once before its first model call."""

    external: ExternalMemory

    async def __call__(self, turn: LiveTurn) -> Recalled | None:
        # A session's first message has the provider's block in the prompt.
        is_answered = turn.request.is_of_one_person and not turn.request.is_command
        if turn.model_calls or turn.message_count < 2 or not is_answered:
            return None
        if with_recalled(turn.messages[-1], "") is None:
            return None  # recalled before a restart
        query = _own_words(json.loads(turn.messages[-1]))
        scope = Scope(turn.profile, turn.session_id)
        text = await self.external.recall(scope, query, turn.toolsets)
        found = with_recalled(turn.messages[-1], text) if text else None
        return None if found is None else Recalled(found)


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

    def record(self, conn: Connection, transition: Transition) -> None:
        """Mark the session of a turn whose end is stored."""
        if transition.after.finished is not None and self._takes(transition.turn):
            put_state(conn, transition.turn.session_id, DUE, True)

    async def after(self, turn: LiveTurn) -> None:
        """Begin to sync the session of an ended turn."""
        if self._takes(turn):
            self._waiting[turn.session_id] = turn.profile
            self._wake.set()

    def end(self, profile: str, session_id: str) -> None:
        """Note that a person has left a session; the provider is told after the rest of it."""
        if self._external.is_on:
            self._left[session_id] = profile
            self._wake.set()

    async def count_waiting(self) -> int:
        """Return of how many sessions the provider has yet to be told something."""
        return len(await self._database.read(_due))

    async def run(self) -> None:
        """Sync what is due, until cancelled."""
        if not self._external.is_on:
            return
        async with self._external.connected():
            while True:
                self._wake.clear()
                try:
                    await self._look()
                except (DatabaseUnavailable, ProviderFailed) as error:
                    _log.warning("%s is told later what was said: %s", self._external.name, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()

    def _takes(self, turn: LiveTurn) -> bool:
        return turn.request.is_of_one_person and self._external.serves(turn.toolsets)

    async def _look(self) -> None:
        if not self._knows_earlier:
            self._waiting |= await self._database.read(_due)
            self._knows_earlier = True
        while self._waiting and not self._external.rests:
            scope = Scope(*reversed(self._waiting.popitem()))
            try:
                await self._sync(scope)
            except BaseException:
                self._waiting.setdefault(scope.session_id, scope.profile)
                raise
        while self._left and not self._external.rests:
            scope = Scope(*reversed(self._left.popitem()))
            if await self._database.read(partial(_has_synced, scope=scope)):
                ended = partial(self._provider.on_session_end, scope)
                await self._external.call(ended, SYNC_S)

    async def _sync(self, scope: Scope) -> None:
        # Whoever takes the mark away syncs: another replica may have been faster.
        if not await self._database.write(partial(_unmark, session_id=scope.session_id)):
            return
        try:
            while found := await self._database.read(partial(self._unsynced, scope=scope)):
                said, through = found
                if said:
                    await self._external.call(partial(self._provider.sync, scope, said), SYNC_S)
                note = partial(put_state, session_id=scope.session_id, name=THROUGH, value=through)
                await self._database.write(note)
        except BaseException:
            mark = partial(put_state, session_id=scope.session_id, name=DUE, value=True)
            await self._database.write(mark)
            raise

    def _unsynced(self, conn: Connection, scope: Scope) -> tuple[Sequence[Utterance], Any] | None:
        """Return what to send next, and through which message that is; None at the end."""
        asked = _SAID.where(message.c.session_id == scope.session_id)
        if through := get_state(conn, scope.session_id, THROUGH):
            at = sa.literal(datetime.fromisoformat(through[0]), message.c.created_at.type)
            place = sa.tuple_(message.c.created_at, message.c.sequence)
            asked = asked.where(place > sa.tuple_(at, through[1]))
        rows = conn.execute(asked).all()
        if not rows:
            return None
        read = get_state(conn, scope.session_id, TAINT) or ()
        only_user = self._guards_strangers and not {*map(str, Opening)}.issuperset(read)
        utterances: list[Utterance] = []
        for row in rows:
            entry: dict[str, Any] = json.loads(row.content)
            is_user = entry["role"] == "user"
            # A message without a time is not a person's.
            is_said = "sent_at" in entry if is_user else not only_user
            is_said = is_said and not row.request.is_command
            if is_said and row.request.is_of_one_person and (text := _own_words(entry).strip()):
                utterances.append(Utterance(text, is_user, row.created_at))
        return utterances, [rows[-1].created_at.isoformat(), rows[-1].sequence]


def _due(conn: Connection) -> dict[str, str]:
    return {row.id: row.profile for row in conn.execute(_DUE)}


def _unmark(conn: Connection, session_id: str) -> bool:
    its = session_state.c.session_id == session_id, session_state.c.name == DUE
    return bool(conn.execute(sa.delete(session_state).where(*its)).rowcount)


def _has_synced(conn: Connection, scope: Scope) -> bool:
    its = session.c.id == scope.session_id, session.c.profile == scope.profile
    is_its = conn.scalar(sa.select(session.c.id).where(*its)) is not None
    return is_its and get_state(conn, scope.session_id, THROUGH) is not None


def _own_words(entry: dict[str, Any]) -> str:
    """Return a message's text without what others wrote."""
    content = entry["content"]
    if not isinstance(content, str):
        texts = (part["text"] for part in content or () if part["type"] == "text")
        content = "\n\n".join(texts)
    return _FENCED.sub("", content)
