"""Client of the agent service for the items of batches."""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import grpc
from msgspec import Struct
from msgspec.structs import replace

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
    """`completed`, `failed`, `cancelled`, `limit_reached`, `needs_review` or `refused`."""
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
            files = {"script.files": prompt.setup_files}
            asked = {"script.text": script, "script.mode": "gate", **files}
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
        prompt = claim.prompt
        files = {"script.files": prompt.check_files}
        asked = {"script.text": prompt.check, "script.mode": "only", **files}
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
        return _report(await watch(self._turns, request.profile, request.turn_id))


def _report(events: Sequence[turn_event_pb2.TurnEvent]) -> TurnReport:
    model, exit_code = "", None
    tools = defaultdict[str, list[int]](lambda: [0, 0, 0])
    for event in events:
        model = event.turn_started.model or model
        tool = event.tool_finished
        if tool.name == _SCRIPT:
            exit_code = tool.exit_code if tool.HasField("exit_code") else None
        elif event.HasField("tool_finished"):
            counts = tools[tool.name]
            counts[0] += 1
            counts[1] += tool.is_error
            counts[2] += tool.duration.ToMilliseconds()
    end = events[-1].turn_finished
    return replace(
        outcome_of(end),
        exit_code=exit_code,
        usage=record_of(end.usage, Usage),
        tools=[ToolUse(name, *tools[name]) for name in sorted(tools)],
        model=model,
    )


def outcome_of(end: turn_event_pb2.TurnFinished) -> TurnReport:
    """Return how a turn ended, without what it used."""
    match outcome := end.WhichOneof("outcome") or "failed":
        case "completed":
            return TurnReport(outcome, end.completed.answer)
        case "failed":
            failure = end.failed.failure
            word = enum_word(error_pb2.ErrorReason.DESCRIPTOR, failure.reason)
            reason = next((each for each in Reason if each.name == word.upper()), None)
            retry_after_s = None
            if failure.HasField("retry_after"):
                retry_after_s = failure.retry_after.ToMilliseconds() / 1000
            message = failure.message or "the turn failed"
            return TurnReport(outcome, error=message, reason=reason, retry_after_s=retry_after_s)
        case "cancelled":
            return TurnReport(outcome, end.cancelled.partial_answer, "it was stopped")
        case "limit_reached":
            limit = end.limit_reached
            return TurnReport(outcome, limit.partial_answer, limit.message or "a limit was reached")
        case _:
            message = end.needs_review.message or "a person has to look at it"
            return TurnReport(outcome, error=message)
