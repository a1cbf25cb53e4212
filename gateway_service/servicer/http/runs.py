"""/v1/runs: turns that go on without their client, which can answer what they ask."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from gateway_service.servicer.http import exchange
from gateway_service.servicer.http.answer_text import AnswerText, chat_usage, failure_of
from gateway_service.servicer.http.exchange import Call, EventStream, Reply
from gateway_service.servicer.http.requests import ResponseRequest, read_input
from gateway_service.servicer.http.turns import ApiTurns, ClientRequest, public_id, turn_id_of
from gateway_service.turns.questions import BUTTONS
from hermes.agent.v1.turn_event_pb2 import TurnEvent, TurnFinished
from hermes.agent.v1.turn_pb2 import Turn, TurnState
from services.errors import InvalidArgument

PREFIX = "run"
_DECISIONS = {word: decision for word, decision, _ in BUTTONS}
_WAITING = {"waiting_person": "waiting_for_approval", "cancelling": "stopping"}


class Approval(Struct, frozen=True):
    """The body of /v1/runs/{id}/approval."""

    approval_id: str
    choice: str


class Answer(Struct, frozen=True):
    """The body of /v1/runs/{id}/answer."""

    question_id: str
    answer: str


class Runs(Struct, frozen=True):
    """Starts runs, and shows and stops them."""

    _turns: ApiTurns

    async def create(self, call: Call) -> Reply:
        request = exchange.read(call.body, ResponseRequest)
        session_id = request.session_id or ""
        wish = ClientRequest(read_input(request), request.model, request.user or "", session_id)
        begun = await self._turns.begin(call, wish, is_background=True)
        self._turns.leave(begun)
        about = {"run_id": begun.name(PREFIX), "session_id": begun.turn.session_id}
        document = {"object": "hermes.run", **about, "status": "started"}
        return Reply(exchange.encode(document), 202, begun.headers)

    async def get(self, call: Call) -> Reply:
        turn = await self._turns.find(turn_id_of(PREFIX, call.named), call.profile)
        document: dict[str, Any] = {
            "object": "hermes.run",
            "run_id": call.named,
            "session_id": turn.session_id,
            "status": _status(turn),
            "created_at": turn.create_time.ToSeconds(),
        }
        if ended := await self._turns.outcome(turn, call.profile):
            document |= _describe_end(ended.answer, ended.finished)
        return exchange.json_reply(document)

    async def events(self, call: Call) -> EventStream:
        """Stream a run's events, those after `Last-Event-ID` if it is given."""
        turn_id = turn_id_of(PREFIX, call.named)
        await self._turns.find(turn_id, call.profile)
        after = call.headers.get("last-event-id", "0")
        if not after.isascii() or not after.isdigit():
            raise InvalidArgument("not an event's id", fields={"Last-Event-ID": "a number"})
        return EventStream(self._stream(turn_id, call.profile, int(after)), {})

    async def stop(self, call: Call) -> Reply:
        turn_id, profile = turn_id_of(PREFIX, call.named), call.profile
        turn = await self._turns.find(turn_id, profile)
        status = "stopping"
        if turn.HasField("finish_time") or not await self._turns.interrupt(turn_id, profile):
            status = _status(await self._turns.find(turn_id, profile))
        return exchange.json_reply({"run_id": call.named, "status": status})

    async def approve(self, call: Call) -> Reply:
        given = exchange.read(call.body, Approval)
        if given.choice not in _DECISIONS:
            wanted = ", ".join(_DECISIONS)
            raise InvalidArgument("not a decision", fields={"choice": f"one of {wanted}"})
        await self._turns.decide(given.approval_id, call.profile, _DECISIONS[given.choice])
        return exchange.json_reply({"run_id": call.named, "choice": given.choice})

    async def answer(self, call: Call) -> Reply:
        given = exchange.read(call.body, Answer)
        await self._turns.answer(given.question_id, call.profile, given.answer)
        return exchange.json_reply({"run_id": call.named, "question_id": given.question_id})

    async def _stream(self, turn_id: str, profile: str, after: int) -> AsyncGenerator[bytes]:
        run_id, streamed = public_id(PREFIX, turn_id), _Streamed()
        async with aclosing(self._turns.watch(turn_id, profile, after)) as batches:
            async for batch in batches:
                for each in batch:
                    name, facts = streamed.describe(each)
                    if name:
                        at = each.time.ToMilliseconds() / 1000
                        document = {"event": name, "run_id": run_id, "timestamp": at, **facts}
                        yield exchange.event(document, number=each.sequence)


class _Streamed:
    def __init__(self) -> None:
        self._text = AnswerText()

    def describe(self, event: TurnEvent) -> tuple[str, dict[str, Any]]:
        """Return an event's name and facts; an empty name if clients are not told of it."""
        if more := self._text.take(event):
            return "message.delta", {"delta": more}
        match event.WhichOneof("kind"):
            case "reasoning_delta":
                return "reasoning.delta", {"delta": event.reasoning_delta.text}
            case "tool_started":
                started = event.tool_started
                about = {"call_id": started.call_id, "tool": started.name}
                return "tool.started", {**about, "arguments": started.arguments_json}
            case "tool_finished":
                ended = event.tool_finished
                about = {"call_id": ended.call_id, "tool": ended.name, "error": ended.is_error}
                duration_s = ended.duration.ToMilliseconds() / 1000
                return "tool.completed", {**about, "duration": duration_s}
            case "notice":
                return "notice", {"text": event.notice.text}
            case "turn_finished":
                finished = event.turn_finished
                return _end_name(finished), _describe_end(self._text.whole(finished), finished)
            case _:
                return _describe_question(event)


def _status(turn: Turn) -> str:
    state = TurnState.Name(turn.state).removeprefix("TURN_STATE_").lower()
    return _WAITING.get(state, state)


def _describe_question(event: TurnEvent) -> tuple[str, dict[str, Any]]:
    match event.WhichOneof("kind"):
        case "approval_requested":
            asked = event.approval_requested
            about = {"approval_id": asked.approval_id, "tool": asked.tool, "subject": asked.subject}
            choices = [word for word in _DECISIONS if asked.can_be_always or word != "always"]
            return "approval.request", {**about, "choices": choices}
        case "approval_resolved":
            return "approval.resolved", {"approval_id": event.approval_resolved.approval_id}
        case "clarification_requested":
            question = event.clarification_requested
            about = {"question_id": question.clarification_id, "question": question.question}
            return "question.asked", {**about, "choices": list(question.choices)}
        case _:
            return "", {}


def _end_name(finished: TurnFinished) -> str:
    if finished.HasField("failed"):
        return "run.failed"
    return "run.cancelled" if finished.HasField("cancelled") else "run.completed"


def _describe_end(answer: str, finished: TurnFinished) -> dict[str, Any]:
    failure = failure_of(finished)
    error = failure and exchange.describe(failure)["error"]
    return {"output": answer, "error": error, "usage": chat_usage(finished)}
