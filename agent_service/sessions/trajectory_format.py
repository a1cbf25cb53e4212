"""Trajectories: turns as training data, one JSON object a line."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.records.events import Durable, Outcome, TurnFinished
from agent_service.records.model import encoded
from agent_service.records.overlays import Overlay
from agent_service.records.requests import COMPRESS, REVIEW, TurnRequest
from agent_service.records.search_query import text_of
from agent_service.records.sent_history import NO_ANSWER, NO_MESSAGE, sent_history
from agent_service.records.turn_state import LiveTurn
from agent_service.storage.schema import event, message, session, turn
from agent_service.storage.sessions import OVERLAY, get_state
from services.database import Database, Prepared
from services.errors import HermesError
from services.home.paths import HomePaths
from services.home.trajectories.sharegpt import sharegpt_record
from services.home.trajectories.trajectory import (
    Call,
    Facts,
    Message,
    Trajectory,
    redact_trajectory,
)
from services.lifecycle import unbroken

_REMEMBERED = 16
COMPLETED, OTHERS = "trajectory_samples.jsonl", "failed_trajectories.jsonl"

_log = logging.getLogger(__name__)
_TURN = Prepared(
    sa.select(
        *(turn.c.session_id, turn.c.request, turn.c.created_at, turn.c.finished_at),
        session.c.system_prompt,
    )
    .join_from(turn, session, session.c.id == turn.c.session_id)
    .where(turn.c.id == bindparam("turn_id"), turn.c.profile == bindparam("profile"))
)
_MESSAGES = Prepared(
    sa.select(message.c.content, message.c.reasoning, message.c.logprobs)
    .where(
        message.c.session_id == bindparam("session_id"), message.c.turn_id == bindparam("turn_id")
    )
    .order_by(message.c.sequence)
)
_LAST_EVENT = Prepared(
    sa.select(event.c.event)
    .where(event.c.turn_id == bindparam("turn_id"))
    .order_by(event.c.sequence.desc())
    .limit(1)
)


class TrajectoryReader(Struct, frozen=True):
    """Reads turns as they were sent to their models, without secrets."""

    database: Database
    tools: Callable[[frozenset[str], Overlay], bytes]
    redact: Callable[[str], str]
    zone: tzinfo | None = None

    def for_many(self) -> Self:
        """Return a reader for many turns, whose prompts and tools are mostly the same."""
        # Not for longer: what is known to be secret grows.
        return replace(self, redact=lru_cache(_REMEMBERED)(self.redact))

    async def read(self, profile: str, turn_id: str) -> Trajectory | None:
        """Return a turn; None if it is not there or has no messages."""
        found = await self.database.read(lambda conn: self._read(conn, profile, turn_id))
        if found is None:
            return None
        return await asyncio.to_thread(redact_trajectory, found, self.redact)

    def _read(self, conn: Connection, profile: str, turn_id: str) -> Trajectory | None:
        row = _TURN.rows(conn, {"turn_id": turn_id, "profile": profile}).one_or_none()
        if row is None:
            return None
        said = _MESSAGES.rows(conn, {"turn_id": turn_id, "session_id": row.session_id}).all()
        if not said:
            return None
        request: TurnRequest = row.request
        last = _LAST_EVENT.rows(conn, {"turn_id": turn_id}).scalar_one_or_none()
        overlay = Overlay.from_state(get_state(conn, row.session_id, OVERLAY))
        system = encoded({"role": "system", "content": row.system_prompt})
        kept = overlay.apply([system, *(one.content.encode() for one in said)])
        none = ("", "")
        before = [none] * (len(kept) - 1 - len(said))
        beside = iter([*before, *((one.reasoning, one.logprobs) for one in said)])
        return Trajectory(
            system_prompt=json.loads(kept[0])["content"],
            tools=self.tools(frozenset(request.granted), overlay).decode() or "[]",
            messages=[
                _message(one, *(none if one in (NO_ANSWER, NO_MESSAGE) else next(beside)))
                for one in sent_history(kept, self.zone)[1:]
            ],
            timestamp=(row.finished_at or row.created_at).isoformat(),
            model=request.model,
            completed=isinstance(last, TurnFinished) and last.outcome is Outcome.COMPLETED,
            facts=Facts(id=turn_id, finish_reason=_finish_reason(last)),
        )


class TrajectoryRecorder:
    """Records a sample of each turn that has ended; failures do not affect turns."""

    def __init__(self, reader: TrajectoryReader, home: HomePaths) -> None:
        self._reader = reader
        self._home = home
        self._writing = asyncio.Lock()

    async def after(self, turn: LiveTurn) -> None:
        if turn.kind not in {COMPRESS, REVIEW}:
            await unbroken(self._keep(turn))

    async def _keep(self, turn: LiveTurn) -> None:
        try:
            sample = await self._reader.read(turn.profile, turn.id)
            if sample is None:
                return
            folder = self._home.profile(turn.profile).root
            path = folder / (COMPLETED if sample.completed else OTHERS)
            line = msgspec.json.encode(sharegpt_record(sample)) + b"\n"
            async with self._writing:
                await asyncio.to_thread(_append, path, line)
        except (OSError, HermesError) as error:
            _log.warning("no trajectory was kept of the turn: %s", error)


def _finish_reason(last: Durable | None) -> str:
    if not isinstance(last, TurnFinished):
        return ""
    return last.reason.lower() if last.outcome is Outcome.FAILED and last.reason else last.outcome


def _message(sent: bytes, reasoning: str, logprobs: str) -> Message:
    """Read a message in the form of the chat completions API."""
    content: dict[str, Any] = json.loads(sent)
    calls = tuple(
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in content.get("tool_calls") or ()
    )
    call_id: str = content.get("tool_call_id", "")
    text = text_of(content["content"])
    return Message(content["role"], text, reasoning, calls, call_id, logprobs)


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A single write, so that processes that share a home do not mix their lines.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)
