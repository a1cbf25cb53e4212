"""Client of the agent service for the items of batches."""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from functools import cached_property
from typing import Any

import grpc
from msgspec import Struct

from hermes.agent.v1 import (
    session_change_pb2,
    session_pb2_grpc,
    turn_event_pb2,
    turn_pb2,
    turn_pb2_grpc,
)
from hermes.common.v1 import content_pb2, error_pb2, origin_pb2
from scheduler_service.batch_records import ItemClaim, ToolUse, Usage
from scheduler_service.clients.calls import CALL_S, answer_unless, watch
from services.errors import Reason
from services.rpc.channels import Channels
from services.rpc.messages import enum_word, message_of, record_of

PLATFORM = "batch"
_SCRIPT = "script"
_RELEASE_S = 60.0

# The agent runs the script first and calls the model only if it succeeds; of what it prints, the
# model sees nothing.
_SETUP = """\
log=$(mktemp)
bash -c {script} >"$log" 2>&1 || {{ code=$?; tail -c 4000 "$log"; exit $code; }}
echo '{{"wakeAgent": true}}'
"""


class TurnReport(Struct, frozen=True):
    """What became of a turn."""

    outcome: str
    """`completed`, `failed`, `cancelled`, `limit_reached` or `needs_review`."""
    answer: str = ""
    error: str = ""
    reason: Reason | None = None
    """Why it failed."""
    retry_after_s: float | None = None
    """How long the model's provider asks to wait, if it says so."""
    exit_code: int | None = None
    """How its script ended; None if it has none, or it was not run."""
    usage: Usage = Usage()
    tools: Sequence[ToolUse] = ()
    model: str = ""


class BatchAgent:
    """Runs the turns of items; raises Unavailable and CallRefused."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    @cached_property
    def _turns(self) -> turn_pb2_grpc.TurnServiceStub:
        return turn_pb2_grpc.TurnServiceStub(self._channels.to("agent"))

    @cached_property
    def _sessions(self) -> session_pb2_grpc.SessionServiceStub:
        return session_pb2_grpc.SessionServiceStub(self._channels.to("agent"))

    async def ask(self, claim: ItemClaim) -> TurnReport:
        """Run an item's setup and its turn, or find out what became of them."""
        prompt, options = claim.prompt, claim.batch.options
        asked: dict[str, Any] = {}
        if prompt.setup.strip():
            script = _SETUP.format(script=shlex.quote(prompt.setup))
            asked = {"script.text": script, "script.mode": "gate"}
        files = [
            content_pb2.MessagePart(file=message_of(file, content_pb2.MessageFile))
            for file in prompt.files
        ]
        request = self._request(claim, claim.turn_id, asked)
        request.parts.extend([content_pb2.MessagePart(text=prompt.prompt), *files])
        request.max_model_calls = options.max_model_calls
        return await self._run(request)

    async def check(self, claim: ItemClaim) -> TurnReport:
        """Run an item's check, or find out what became of it."""
        asked = {"script.text": claim.prompt.check, "script.mode": "only"}
        return await self._run(self._request(claim, f"{claim.turn_id}.check", asked))

    async def release(self, claim: ItemClaim) -> None:
        """End the sandbox of an attempt; may be repeated."""
        request = session_change_pb2.ReleaseSandboxRequest(
            session_id=claim.turn_id, profile=claim.batch.profile, deletes_workspace=True
        )
        releasing = self._sessions.ReleaseSandbox(request, timeout=_RELEASE_S)
        await answer_unless(grpc.StatusCode.NOT_FOUND, releasing)

    def _request(
        self, claim: ItemClaim, turn_id: str, asked: dict[str, Any]
    ) -> turn_pb2.StartTurnRequest:
        batch = claim.batch
        origin = origin_pb2.Origin(
            platform=PLATFORM, chat_id=batch.name, trust=origin_pb2.TRUST_SERVICE
        )
        return message_of(
            asked,
            turn_pb2.StartTurnRequest,
            turn_id=turn_id,
            profile=batch.profile,
            session_id=claim.turn_id,
            origin=origin,
            kind=turn_pb2.TURN_KIND_JOB,
            busy_mode=turn_pb2.BUSY_MODE_QUEUE,
            model=batch.options.model,
            toolsets=sorted(claim.prompt.toolsets),
            sandbox_template=batch.options.sandbox_template,
            unattended="deny",
            skip_context_files=True,
        )

    async def _run(self, request: turn_pb2.StartTurnRequest) -> TurnReport:
        # The id is ours: an earlier start had other options of the batch.
        starting = self._turns.StartTurn(request, timeout=CALL_S)
        await answer_unless(grpc.StatusCode.ALREADY_EXISTS, starting)
        tally = _Tally()
        async with aclosing(watch(self._turns, request.profile, request.turn_id)) as events:
            async for event in events:
                tally.add(event)
        return tally.report()


class _Tally:
    """What the events of a turn say."""

    def __init__(self) -> None:
        self._model = ""
        self._exit_code: int | None = None
        self._tools: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._end = turn_event_pb2.TurnFinished()

    def add(self, event: turn_event_pb2.TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "turn_started":
                self._model = event.turn_started.model or self._model
            case "tool_finished":
                self._add_tool(event.tool_finished)
            case "turn_finished":
                self._end = event.turn_finished
            case _:
                pass

    def _add_tool(self, tool: turn_event_pb2.ToolFinished) -> None:
        if tool.name == _SCRIPT:
            self._exit_code = tool.exit_code if tool.HasField("exit_code") else None
            return
        counts = self._tools[tool.name]
        counts[0] += 1
        counts[1] += tool.is_error
        counts[2] += tool.duration.ToMilliseconds()

    def report(self) -> TurnReport:
        outcome = self._end.WhichOneof("outcome") or "failed"
        answer, error, reason, retry_after_s = "", "", None, None
        match outcome:
            case "completed":
                answer = self._end.completed.answer
            case "failed":
                failure = self._end.failed.failure
                error = failure.message or "the turn failed"
                word = enum_word(error_pb2.ErrorReason.DESCRIPTOR, failure.reason)
                if failure.HasField("retry_after"):
                    retry_after_s = failure.retry_after.ToMilliseconds() / 1000
                reason = next((each for each in Reason if each.name == word.upper()), None)
            case "cancelled":
                answer, error = self._end.cancelled.partial_answer, "it was stopped"
            case "limit_reached":
                limit = self._end.limit_reached
                answer, error = limit.partial_answer, limit.message or "a limit was reached"
            case _:
                error = self._end.needs_review.message or "a person has to look at it"
        return TurnReport(
            outcome,
            answer,
            error,
            reason,
            retry_after_s,
            self._exit_code,
            record_of(self._end.usage, Usage),
            [ToolUse(name, *self._tools[name]) for name in sorted(self._tools)],
            self._model,
        )
