"""The Model seam over any endpoint that speaks OpenAI's chat completions API."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from agent_service.models.assembly import Assembly, MalformedChunk, well_formed
from agent_service.models.base import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ReasoningDelta,
    TextDelta,
    encoded,
)
from agent_service.models.endpoints import Endpoint
from agent_service.models.errors import ModelError
from agent_service.models.failures import (
    cut_failure,
    empty_failure,
    not_a_stream_failure,
    stream_failure,
)
from agent_service.models.retries import RetryPolicy
from agent_service.models.sse import EventTooLarge, SSEDecoder
from agent_service.models.transport import Answer, Timeouts, Transport

_DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class AppIdentity:
    """How this deployment presents itself to OpenRouter."""

    title: str = "Hermes"
    referer: str = ""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Where a model departs from the request that most endpoints take."""

    max_tokens_field: str = "max_tokens"
    stream_options: bool = True

    def corrected(self, error: ModelError) -> "_Dialect | None":
        """Return the dialect that a rejected request asks for, or None if it is not that."""
        if error.status not in {400, 422}:
            return None
        if self.max_tokens_field == "max_tokens" and "max_completion_tokens" in error.detail:
            return replace(self, max_tokens_field="max_completion_tokens")
        if self.stream_options and "stream_options" in error.detail:
            return replace(self, stream_options=False)
        return None


class ChatCompletions:
    """A Model at one endpoint; open it with `async with`."""

    def __init__(
        self,
        endpoint: Endpoint,
        retries: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        identity: AppIdentity | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._retries = retries or RetryPolicy()
        self._transport = Transport(
            endpoint, timeouts, _headers(endpoint, identity or AppIdentity())
        )
        self._dialects: dict[str, _Dialect] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._transport.__aexit__(*exc_info)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Call the model; the iterator ends with one `ModelMessage` or raises `ModelError`."""
        async with aclosing(self._attempts(request)) as events:
            yield events

    async def _attempts(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        attempt = 1
        while True:
            dialect = self._dialects.get(request.model, _Dialect())
            try:
                async with aclosing(self._attempt(request, dialect, attempt)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                corrected = dialect.corrected(error)
                if corrected is not None:
                    self._dialects[request.model] = corrected
                    continue
                delay = self._retries.delay_s(attempt, error)
                if delay is None:
                    raise
                retry = ModelRetry(attempt, error.kind, str(error), delay)
            else:
                return
            yield retry
            await asyncio.sleep(retry.delay_s)
            attempt += 1

    async def _attempt(
        self, request: ModelRequest, dialect: _Dialect, attempt: int
    ) -> AsyncGenerator[ModelEvent]:
        assembly = Assembly()
        body = self._body(request, dialect)
        async with (
            self._transport.post(request.model, body) as answer,
            aclosing(self._chunks(answer, request.model)) as reads,
        ):
            async for chunks in reads:
                added = [assembly.add(chunk) for chunk in chunks]
                reasoning = "".join(reasoning for _, reasoning in added)
                if reasoning:
                    yield ReasoningDelta(well_formed(reasoning), attempt)
                text = "".join(text for text, _ in added)
                if text:
                    yield TextDelta(well_formed(text), attempt)
        yield self._finished(assembly, request.model)

    def _body(self, request: ModelRequest, dialect: _Dialect) -> bytes:
        fields = [b'{"model":', encoded(request.model), b',"stream":true,"messages":[']
        fields += [self._messages(request), b"]"]
        if request.tools:
            fields += [b',"tools":', request.tools, b',"tool_choice":"auto"']
        fields += [b',"%b":%d' % (dialect.max_tokens_field.encode(), request.max_tokens)]
        if dialect.stream_options:
            fields.append(b',"stream_options":{"include_usage":true}')
        return b"".join([*fields, b"}"])

    def _messages(self, request: ModelRequest) -> bytes:
        joined = b",".join(request.messages)
        if self._endpoint.provider == "openrouter" or b'"reasoning_details"' not in joined:
            return joined
        # Other endpoints reject fields that they do not know, and a session may have moved.
        return b",".join(
            _without_details(message) if b'"reasoning_details"' in message else message
            for message in request.messages
        )

    async def _chunks(self, answer: Answer, model: str) -> AsyncGenerator[list[Mapping[str, Any]]]:
        """Yield the chunks that each read from the network completes."""
        if answer.content_type.startswith("text/html"):
            raise not_a_stream_failure(self._endpoint, answer.content_type)
        if answer.content_type.startswith("application/json"):
            yield [self._parsed(await answer.read(), model)]  # a server that does not stream
            return
        decoder = SSEDecoder()
        async for data in answer.chunks:
            try:
                payloads = decoder.feed(data)
            except EventTooLarge as error:
                raise cut_failure(self._endpoint, "an event without end") from error
            done = _DONE in payloads
            if done:
                del payloads[payloads.index(_DONE) :]
            yield [self._parsed(payload, model) for payload in payloads]
            if done:
                await answer.drain()
                return
        yield [self._parsed(payload, model) for payload in decoder.flush()]

    def _parsed(self, payload: bytes, model: str) -> Mapping[str, Any]:
        try:
            chunk: Any = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise cut_failure(self._endpoint, "a part of it is not JSON") from error
        if not isinstance(chunk, dict):
            raise cut_failure(self._endpoint, "a part of it is not an object")
        parsed = cast("Mapping[str, Any]", chunk)
        if parsed.get("error"):
            raise stream_failure(self._endpoint, model, parsed["error"])
        return parsed

    def _finished(self, assembly: Assembly, model: str) -> ModelMessage:
        """Return the whole answer, if it is whole and an answer."""
        if not assembly.finish_reason:
            raise cut_failure(self._endpoint, "it has no end")
        if assembly.finish_reason == "error":
            raise stream_failure(self._endpoint, model, {})
        try:
            message = assembly.message(model, self._endpoint.provider)
        except MalformedChunk as error:
            raise cut_failure(self._endpoint, str(error)) from error
        if not message.text and not message.tool_calls:
            raise empty_failure(self._endpoint, model, message.finish_reason)
        return message


def _without_details(message: bytes) -> bytes:
    fields: dict[str, Any] = json.loads(message)
    fields.pop("reasoning_details", None)
    return encoded(fields)


def _headers(endpoint: Endpoint, identity: AppIdentity) -> dict[str, str]:
    if endpoint.provider != "openrouter":
        return {}
    headers = {"HTTP-Referer": identity.referer, "X-OpenRouter-Title": identity.title}
    return {name: value for name, value in headers.items() if value}
