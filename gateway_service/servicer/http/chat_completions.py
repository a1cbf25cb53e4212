"""/v1/chat/completions and /v1/models."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from gateway_service.servicer.http.answer_text import (
    AnswerText,
    chat_usage,
    failure_of,
    finish_reason,
    progress,
)
from gateway_service.servicer.http.exchange import (
    Call,
    EventStream,
    Reply,
    encode,
    event,
    json_reply,
    read,
    refuse,
)
from gateway_service.servicer.http.requests import ChatRequest, read_messages
from gateway_service.servicer.http.turns import ApiTurns, ClientRequest, Ended, StartedTurn
from hermes.agent.v1.turn_event_pb2 import TurnFinished
from services.clock import Clock
from services.errors import InvalidArgument, NotFound

PREFIX = "chatcmpl"
DONE = b"data: [DONE]\n\n"


class ChatCompletions(Struct, frozen=True):
    """Answers in the shape of OpenAI's chat completions."""

    _turns: ApiTurns
    _clock: Clock

    async def models(self, call: Call) -> Reply:
        return json_reply({"object": "list", "data": self._models(call.profile)})

    async def model(self, call: Call) -> Reply:
        for each in self._models(call.profile):
            if each["id"] == call.named:
                return json_reply(each)
        raise NotFound(f"there is no model {call.named!r}", metadata={"code": "model_not_found"})

    async def create(self, call: Call) -> Reply | EventStream:
        request = read(call.body, ChatRequest)
        if request.n not in (None, 1):
            raise InvalidArgument("there is only one answer", fields={"n": "1"})
        wish = ClientRequest(read_messages(request.messages), request.model, request.user or "")
        begun = await self._turns.begin(call, wish)
        if not request.stream:
            return await self._whole(begun)
        options = request.stream_options
        has_usage = bool(options and options.include_usage)
        return EventStream(self._stream(begun, has_usage=has_usage), begun.headers)

    async def _whole(self, begun: StartedTurn) -> Reply:
        ended = await self._turns.complete(begun)
        if failure := ended.failure:
            return refuse(failure, may_retry=False, headers=begun.headers)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": ended.answer},
            "finish_reason": finish_reason(ended.finished),
        }
        document = self._document(begun, "chat.completion")
        document |= {"choices": [choice], "usage": chat_usage(ended.finished)}
        return Reply(encode(document), headers=begun.headers)

    async def _stream(self, begun: StartedTurn, *, has_usage: bool) -> AsyncGenerator[bytes]:
        head, text = self._document(begun, "chat.completion.chunk"), AnswerText()
        finished = TurnFinished()
        yield _chunk(head, {"role": "assistant", "content": ""})
        async with aclosing(self._turns.follow(begun, text)) as events:
            async for each in events:
                if work := progress(each):
                    yield _chunk(head, {"reasoning_content": work})
                if more := text.take(each):
                    yield _chunk(head, {"content": more})
                finished = each.turn_finished
        if failure := failure_of(finished):
            await self._turns.end(begun, Ended("", finished))
            raise failure
        if rest := text.end(finished):
            yield _chunk(head, {"content": rest})
        await self._turns.end(begun, Ended(text.text, finished))
        yield _chunk(head, {}, finish_reason(finished))
        if has_usage:
            yield event({**head, "choices": [], "usage": chat_usage(finished)})
        yield DONE

    def _document(self, begun: StartedTurn, kind: str) -> dict[str, Any]:
        created = int(self._clock.now().timestamp())
        named = {"id": begun.name(PREFIX), "object": kind}
        return {**named, "created": created, "model": begun.model}

    def _models(self, profile: str) -> list[dict[str, Any]]:
        names = self._turns.config.models_for(profile)
        about = {"object": "model", "created": 0, "owned_by": "hermes"}
        return [{"id": name, **about} for name in names]


def _chunk(head: dict[str, Any], delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return event({**head, "choices": [choice]})
