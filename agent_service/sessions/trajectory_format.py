"""Trajectories: turns as training data, one JSON object a line."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.events import Outcome
from agent_service.records.overlays import Overlay
from agent_service.records.requests import COMPRESS, REVIEW
from agent_service.records.search_query import text_of
from agent_service.records.turn_state import LiveTurn
from agent_service.storage.schema import message
from services.clock import Clock
from services.database import Database
from services.errors import HermesError
from services.home.trajectories.sharegpt import sharegpt_record
from services.home.trajectories.trajectory import Call, Message, Trajectory, redact_trajectory
from services.lifecycle import unbroken

COMPLETED, OTHERS = "trajectory_samples.jsonl", "failed_trajectories.jsonl"

_log = logging.getLogger(__name__)
_OF_TURN = (
    sa.select(message.c.content, message.c.reasoning)
    .where(
        message.c.session_id == bindparam("session_id"), message.c.turn_id == bindparam("turn_id")
    )
    .order_by(message.c.sequence)
)


class Places(Struct, frozen=True):
    """Where samples come from and go to."""

    folder: Callable[[str], Path]
    tools: Callable[[frozenset[str], Overlay], bytes]
    redact: Callable[[str], str]


class TrajectoryRecorder:
    """Records a sample of each turn that has ended; failures do not affect turns."""

    def __init__(self, database: Database, places: Places, clock: Clock) -> None:
        self._database = database
        self._places = places
        self._clock = clock
        self._writing = asyncio.Lock()

    async def after(self, turn: LiveTurn) -> None:
        if turn.kind not in {COMPRESS, REVIEW}:
            await unbroken(self._keep(turn))

    async def _keep(self, turn: LiveTurn) -> None:
        try:
            sample = await self._sample(turn)
            path = self._places.folder(turn.profile) / (COMPLETED if sample.completed else OTHERS)
            async with self._writing:
                await asyncio.to_thread(_append, path, self._line(sample))
        except (OSError, HermesError) as error:
            _log.warning("no trajectory was kept of the turn: %s", error)

    def _line(self, sample: Trajectory) -> str:
        record = sharegpt_record(redact_trajectory(sample, self._places.redact))
        return f"{json.dumps(record, ensure_ascii=False)}\n"

    async def _sample(self, turn: LiveTurn) -> Trajectory:
        of_turn = {"session_id": turn.session_id, "turn_id": turn.id}

        def read(conn: Connection) -> list[Message]:
            rows = conn.execute(_OF_TURN, of_turn)
            return [_message(json.loads(row.content), row.reasoning) for row in rows]

        finished = turn.finished
        return Trajectory(
            system_prompt=json.loads(turn.messages[0])["content"],
            tools=self._places.tools(turn.toolsets, turn.overlay).decode(),
            messages=await self._database.read(read),
            timestamp=self._clock.now().isoformat(),
            model=turn.model,
            completed=finished is not None and finished.outcome is Outcome.COMPLETED,
        )


def _message(content: Mapping[str, Any], reasoning: str) -> Message:
    """Read a message that is stored in the form of the chat completions API."""
    calls = [
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in content.get("tool_calls") or ()
    ]
    call_id: str = content.get("tool_call_id", "")
    return Message(content["role"], text_of(content["content"]), reasoning, calls, call_id)


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A single write, so that processes that share a home do not mix their lines.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)
