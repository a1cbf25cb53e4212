"""Trajectories: turns as training data, one JSON object a line."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
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
from services.lifecycle import unbroken


class TrajectoryMessage(Struct, frozen=True):
    """A message in the form of the chat completions API, with the model's reasoning."""

    content: Mapping[str, Any]
    reasoning: str


class Sample(Struct, frozen=True):
    """A turn that has ended."""

    system_prompt: str
    tools: str
    messages: Sequence[TrajectoryMessage]
    model: str
    is_completed: bool
    ended_at: datetime


def line(sample: Sample, redact: Callable[[str], str]) -> str:
    """Return a sample as a line with a newline, without secrets."""
    turns = [{"from": speaker, "value": redact(value)} for speaker, value in _conversation(sample)]
    written = {
        "conversations": turns,
        "timestamp": sample.ended_at.isoformat(),
        "model": sample.model,
        "completed": sample.is_completed,
    }
    return f"{json.dumps(written, ensure_ascii=False)}\n"


def _conversation(sample: Sample) -> Iterator[tuple[str, str]]:
    yield "system", f"{sample.system_prompt}\n\n{_block('tools', sample.tools or '[]')}"
    names: dict[str, str] = {}
    for role, group in groupby(sample.messages, key=lambda said: said.content["role"]):
        if role == "tool":
            yield "tool", "\n".join(_response(said.content, names) for said in group)
            continue
        for said in group:
            calls = said.content.get("tool_calls") or ()
            names |= {call["id"]: call["function"]["name"] for call in calls}
            text = text_of(said.content["content"])
            yield (
                ("gpt", _answer(text, said.reasoning, calls))
                if role == "assistant"
                else ("human", text)
            )


def _answer(text: str, reasoning: str, calls: Sequence[Mapping[str, Any]]) -> str:
    thought = _block("think", reasoning.strip())
    called = [_block("tool_call", _call(call["function"])) for call in calls]
    return "\n".join(filter(None, (thought, text, *called)))


def _call(function: Mapping[str, Any]) -> str:
    arguments: Any = function["arguments"]
    # Malformed arguments stay as the model wrote them.
    with suppress(ValueError, RecursionError):
        arguments = json.loads(arguments)
    return json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)


def _response(content: Mapping[str, Any], names: Mapping[str, str]) -> str:
    call_id = content["tool_call_id"]
    response = {
        "tool_call_id": call_id,
        "name": names.get(call_id, ""),
        "content": text_of(content["content"]),
    }
    return _block("tool_response", json.dumps(response, ensure_ascii=False))


def _block(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


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
            path = self._places.folder(turn.profile) / (
                COMPLETED if sample.is_completed else OTHERS
            )
            async with self._writing:
                await asyncio.to_thread(_append, path, line(sample, self._places.redact))
        except (OSError, HermesError) as error:
            _log.warning("no trajectory was kept of the turn: %s", error)

    async def _sample(self, turn: LiveTurn) -> Sample:
        of_turn = {"session_id": turn.session_id, "turn_id": turn.id}

        def read(conn: Connection) -> list[TrajectoryMessage]:
            rows = conn.execute(_OF_TURN, of_turn)
            return [TrajectoryMessage(json.loads(row.content), row.reasoning) for row in rows]

        finished = turn.finished
        return Sample(
            system_prompt=json.loads(turn.messages[0])["content"],
            tools=self._places.tools(turn.toolsets, turn.overlay).decode(),
            messages=await self._database.read(read),
            model=turn.model,
            is_completed=finished is not None and finished.outcome is Outcome.COMPLETED,
            ended_at=self._clock.now(),
        )


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A single write, so that processes that share a home do not mix their lines.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, text.encode(errors="replace"))
    finally:
        os.close(file)
