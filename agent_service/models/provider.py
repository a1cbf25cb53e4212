"""The Model seam over any provider: attempts, events, and what can go wrong with them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Self

from msgspec import Struct

from agent_service.models.access import Access, Keys
from agent_service.models.endpoints import Endpoint
from agent_service.models.failures import (
    cut_failure,
    empty_failure,
    not_a_stream_failure,
    stream_failure,
)
from agent_service.models.wires.chat_completions import well_formed
from agent_service.models.wires.transport import Answer, Timeouts, Transport
from agent_service.models.wires.wire import Dialect, Json, MalformedChunk, Reading, Wire
from agent_service.records.model import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
    ReasoningDelta,
    TextDelta,
)
from agent_service.records.model_errors import ModelError, RetryPolicy
from services.clock import SystemClock
from services.validation import json_object

MAX_EVENT_BYTES = 4 * 1024 * 1024


class EventTooLarge(Exception):
    """The server sent an event that is larger than any real answer."""


class SSEDecoder:
    """Turns chunks of bytes, cut anywhere, into the data of whole events."""

    __slots__ = ("_data", "_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events: list[bytes] = []
        for line in lines:
            self._line(line.removesuffix(b"\r"), events)
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return events

    def flush(self) -> list[bytes]:
        """Return the data of an event that the server left without its blank line."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(data)
            self._size += len(data)
        elif not line and self._data:
            events.append(b"\n".join(self._data))
            self._data = []
            self._size = 0


_DONE = b"[DONE]"


class Provider:
    """A Model at one endpoint, in one wire format; open it with `async with`."""

    def __init__(
        self,
        endpoint: Endpoint,
        wire: Wire,
        retries: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        access: Access | None = None,
    ) -> None:
        """`access` says with what requests are signed, where it is not always the same key."""
        self._access = access or Keys(endpoint, SystemClock())
        self._wire = wire
        self._retries = retries or RetryPolicy()
        self._transport = Transport(wire, timeouts)
        self._dialects: dict[str, Dialect] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._transport.__aexit__(*exc_info)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Call the model; the iterator ends with one `ModelMessage` or raises `ModelError`."""
        async with aclosing(self._attempts(request)) as events:
            yield events

    async def reached(self) -> Endpoint:
        """The endpoint with its key as it is now; raises `ModelError`."""
        return await self._access.current()

    async def preload(self) -> None:
        """Load the SDK now, and not with the first call; raises `ModelError`."""
        await self._transport.ready(await self._access.current())

    async def _attempts(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        attempt, replaced, other = 1, 0, None
        while True:
            dialect = self._dialects.get(request.model, Dialect())
            endpoint, said = other, False
            try:
                endpoint = endpoint or await self._access.current()
                call = _Call(endpoint, request, attempt)
                async with aclosing(self._attempt(call, dialect)) as events:
                    async for event in events:
                        said = True
                        yield event
            except ModelError as failed:
                corrected = dialect.corrected(self._wire, failed)
                if corrected is not None:
                    self._dialects[request.model] = corrected
                    continue
                other, error = await self._instead_of(endpoint, failed, replaced)
                replaced += other is not None
                if other is not None and not said:
                    continue
                delay = self._retries.delay_s(attempt, error)
                if delay is None:
                    raise error from failed.__cause__
                retry = ModelRetry(attempt, error.kind, str(error), delay)
            else:
                return
            yield retry
            await asyncio.sleep(retry.delay_s)
            attempt += 1

    async def _instead_of(
        self, endpoint: Endpoint | None, error: ModelError, replaced: int
    ) -> tuple[Endpoint | None, ModelError]:
        """What is tried in place of what failed, and why the call fails where nothing is."""
        if endpoint is None:
            return None, error
        try:
            return await self._access.instead_of(endpoint, error, replaced), error
        except ModelError as unavailable:
            return None, unavailable

    async def _attempt(self, call: "_Call", dialect: Dialect) -> AsyncGenerator[ModelEvent]:
        reading, model = self._wire.reading(), call.request.model
        body = self._wire.body(call.request, dialect)
        async with (
            self._transport.post(call.endpoint, model, body) as answer,
            aclosing(_chunks(answer, call, reading)) as reads,
        ):
            async for chunks in reads:
                added = _added(reading, chunks, call)
                reasoning = "".join(reasoning for _, reasoning in added)
                if reasoning:
                    yield ReasoningDelta(well_formed(reasoning), call.attempt)
                text = "".join(text for text, _ in added)
                if text:
                    yield TextDelta(well_formed(text), call.attempt)
        message = _finished(reading, call)
        if not message.text and not message.tool_calls:
            yield ModelWasted(message)
            raise empty_failure(call.endpoint, model, message.finish_reason)
        yield message


class _Call(Struct, frozen=True):
    """One attempt at a request, and whom it asks."""

    endpoint: Endpoint
    request: ModelRequest
    attempt: int


async def _chunks(answer: Answer, call: _Call, reading: Reading) -> AsyncGenerator[list[Json]]:
    """Yield the chunks that each read from the network completes."""
    if answer.content_type.startswith("text/html"):
        raise not_a_stream_failure(call.endpoint, answer.content_type)
    if answer.content_type.startswith("application/json"):
        yield [_parsed(await answer.read(), call, reading)]  # a server that does not stream
        return
    decoder = SSEDecoder()
    async for data in answer.chunks:
        try:
            payloads = decoder.feed(data)
        except EventTooLarge as error:
            raise cut_failure(call.endpoint, "an event without end") from error
        done = _DONE in payloads
        if done:
            del payloads[payloads.index(_DONE) :]
        yield [_parsed(payload, call, reading) for payload in payloads]
        if done or reading.ended:
            await answer.drain()
            return
    yield [_parsed(payload, call, reading) for payload in decoder.flush()]


def _parsed(payload: bytes, call: _Call, reading: Reading) -> Json:
    chunk = json_object(payload)
    if chunk is None:
        raise cut_failure(call.endpoint, "a part of it is not an object of JSON")
    error = reading.failure(chunk)
    if error is not None:
        raise stream_failure(call.endpoint, call.request.model, error)
    return chunk


def _added(reading: Reading, chunks: Iterable[Json], call: _Call) -> list[tuple[str, str]]:
    try:
        return [reading.add(chunk) for chunk in chunks]
    except MalformedChunk as error:
        raise cut_failure(call.endpoint, str(error)) from error


def _finished(reading: Reading, call: _Call) -> ModelMessage:
    """Return the whole answer, if it is whole."""
    if not reading.finish_reason:
        raise cut_failure(call.endpoint, "it has no end")
    if reading.finish_reason == "error":
        raise stream_failure(call.endpoint, call.request.model, {})
    try:
        return reading.message(call.request.model, call.endpoint.provider)
    except MalformedChunk as error:
        raise cut_failure(call.endpoint, str(error)) from error
