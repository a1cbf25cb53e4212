"""/v1/responses."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gateway_service.servicer.http import exchange
from gateway_service.servicer.http.answer_text import (
    AnswerText,
    failure_of,
    progress,
    response_usage,
)
from gateway_service.servicer.http.exchange import Call, EventStream, Reply
from gateway_service.servicer.http.requests import ResponseRequest, read_input
from gateway_service.servicer.http.turns import (
    ApiTurns,
    ClientRequest,
    Ended,
    StartedTurn,
    public_id,
    turn_id_of,
)
from hermes.agent.v1.turn_event_pb2 import TurnFinished
from services.clock import Clock

PREFIX = "resp"
Document = dict[str, Any]


class Responses(Struct, frozen=True):
    """Answers in the shape of OpenAI's responses."""

    _turns: ApiTurns
    _clock: Clock

    async def create(self, call: Call) -> Reply | EventStream:
        request = exchange.read(call.body, ResponseRequest)
        wish = ClientRequest(read_input(request), request.model, request.user or "")
        if previous := request.previous_response_id:
            turn = await self._turns.find(turn_id_of(PREFIX, previous), call.profile)
            wish = replace(wish, session_id=turn.session_id)
        begun = await self._turns.begin(call, wish, is_background=bool(request.background))
        document = _document(begun.name(PREFIX), begun.model, self._clock.now().timestamp())
        document["previous_response_id"] = previous or None
        if request.background:
            self._turns.leave(begun)
            return Reply(exchange.encode({**document, "background": True}), headers=begun.headers)
        if request.stream:
            return EventStream(self._stream(begun, document), begun.headers)
        return await self._whole(begun, document)

    async def get(self, call: Call) -> Reply:
        """Return a response that was made before, as it is now."""
        return exchange.json_reply(await self._current(call))

    async def cancel(self, call: Call) -> Reply:
        await self._turns.interrupt(turn_id_of(PREFIX, call.named), call.profile)
        return exchange.json_reply(await self._current(call))

    async def _current(self, call: Call) -> Document:
        turn = await self._turns.find(turn_id_of(PREFIX, call.named), call.profile)
        model = self._turns.config.name_for(call.profile)
        document = _document(call.named, model, turn.create_time.ToSeconds())
        ended = await self._turns.outcome(turn, call.profile)
        return document if ended is None else _end(document, ended.answer, ended.finished)

    async def _whole(self, begun: StartedTurn, document: Document) -> Reply:
        ended = await self._turns.complete(begun)
        if failure := ended.failure:
            return exchange.refuse(failure, may_retry=False, headers=begun.headers)
        _end(document, ended.answer, ended.finished)
        return Reply(exchange.encode(document), headers=begun.headers)

    async def _stream(self, begun: StartedTurn, document: Document) -> AsyncGenerator[bytes]:
        text, numbers = AnswerText(), _Numbers()
        item_id = public_id("msg", begun.turn.turn_id)
        place = {"item_id": item_id, "output_index": 0, "content_index": 0}
        for each in _opening(document, item_id):
            yield numbers.event(each)
        finished = TurnFinished()
        async with aclosing(self._turns.follow(begun, text)) as events:
            async for each in events:
                if work := progress(each):
                    yield numbers.event({"type": "hermes.progress", "delta": work})
                if more := text.take(each):
                    yield numbers.event(_delta(place, more))
                finished = each.turn_finished
        if failure_of(finished) is None and (rest := text.end(finished)):
            yield numbers.event(_delta(place, rest))
        await self._turns.end(begun, Ended(text.text, finished))
        _end(document, text.text, finished)
        for each in _closing(document, place, text.text):
            yield numbers.event(each)


class _Numbers:
    def __init__(self) -> None:
        self._next = 0

    def event(self, document: Document) -> bytes:
        numbered = {**document, "sequence_number": self._next}
        self._next += 1
        return exchange.event(numbered, document["type"])


def _document(name: str, model: str, created: float) -> Document:
    return {
        "id": name,
        "object": "response",
        "created_at": int(created),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _end(document: Document, answer: str, finished: TurnFinished) -> Document:
    failure, is_complete = failure_of(finished), finished.HasField("completed")
    status = "completed" if is_complete else "cancelled"
    if finished.HasField("limit_reached"):
        status = "incomplete"
        document["incomplete_details"] = {"reason": "max_output_tokens"}
    if failure is not None:
        status = "failed"
        document["error"] = {"code": "server_error", "message": failure.message}
    document["status"], document["usage"] = status, response_usage(finished)
    if answer:
        name = document["id"].replace(PREFIX, "msg", 1)
        document["output"] = [_message(name, "completed", [_part(answer)])]
    return document


def _message(name: str, status: str, content: list[Document]) -> Document:
    about = {"type": "message", "id": name, "status": status, "role": "assistant"}
    return {**about, "content": content}


def _part(text: str) -> Document:
    return {"type": "output_text", "text": text, "annotations": []}


def _delta(place: Document, text: str) -> Document:
    return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}


def _opening(document: Document, item_id: str) -> Iterator[Document]:
    yield {"type": "response.created", "response": document}
    yield {"type": "response.in_progress", "response": document}
    item = _message(item_id, "in_progress", [])
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    place = {"item_id": item_id, "output_index": 0, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": _part("")}


def _closing(document: Document, place: Document, text: str) -> Iterator[Document]:
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(text)}
    item = _message(place["item_id"], "completed", [_part(text)])
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    kind = document["status"] if document["status"] in ("failed", "incomplete") else "completed"
    yield {"type": f"response.{kind}", "response": document}
