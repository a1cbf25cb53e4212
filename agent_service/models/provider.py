"""Implements the Model seam for any provider: attempts, events and errors."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from agent_service.models.access import Access, Keys
from agent_service.models.endpoints import Endpoint
from agent_service.models.failures import (
    cut_failure,
    empty_failure,
    not_a_stream_failure,
    stream_failure,
)
from agent_service.models.thought_tags import ThoughtTags
from agent_service.models.wires.transport import Answer, Timeouts, Transport
from agent_service.models.wires.wire import (
    Dialect,
    Json,
    MalformedChunk,
    Reading,
    Wire,
    objects_of,
    reported_error,
    tokens,
    well_formed,
)
from agent_service.records.events import PromptProgress, ReasoningDelta, TextDelta
from agent_service.records.model import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
    encoded,
    restore_attached,
)
from agent_service.records.model_errors import ModelError, RetryPolicy
from services.clock import SystemClock
from services.validation import json_object, object_of

MAX_EVENT_BYTES = 4 * 1024 * 1024


class EventTooLarge(Exception):
    """The server sent an event that is larger than any real answer."""


class SSEDecoder:
    """Decodes chunks of bytes, split anywhere, into the data of whole events."""

    __slots__ = ("_data", "_is_error", "_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._is_error = False

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
        """Return the data of a last event without its blank line."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            if self._data and json_object(b"\n".join(self._data)) is not None:
                self._end_event(events)  # some servers leave out the blank line
            self._data.append(data)
            self._size += len(data)
        elif line.startswith(b"event:"):
            self._is_error = line[6:].strip() == b"error"
        elif line.startswith(b"error:"):
            events.append(_as_error(line[6:]))
        elif line.startswith(b"{"):
            events.append(line)  # some servers write errors between events
        elif not line:
            self._end_event(events)
            self._is_error = False

    def _end_event(self, events: list[bytes]) -> None:
        if self._data:
            data = b"\n".join(self._data)
            events.append(_as_error(data) if self._is_error else data)
        self._data = []
        self._size = 0


def _as_error(data: bytes) -> bytes:
    told = json_object(data)
    if told is not None and reported_error(told):
        return data
    return encoded({"error": told or data.decode(errors="replace")})


_DONE = b"[DONE]"
_KNOWN = frozenset({"choices", "type", "usage", "prompt_progress"})
"""One of them is in each chunk of an answer."""
_BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes before a body's first character, with the mark that some servers begin a text with."""


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
        """`access` signs requests, if not always with the same key."""
        self._access = access or Keys(endpoint, SystemClock())
        self._wire = wire
        self._retries = retries or RetryPolicy()
        self._transport = Transport(wire, timeouts)
        self._dialects: dict[str, Dialect] = {}
        self._usual_dialect = Dialect()
        self._begins_thought: set[str] = set()
        """Models whose templates begin the reasoning in the text."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._transport.__aexit__(*exc_info)

    def stream(self, request: ModelRequest) -> "aclosing[AsyncGenerator[ModelEvent]]":
        """Call the model; the iterator ends with one `ModelMessage` or raises `ModelError`."""
        return aclosing(self._attempts(request))

    async def reached(self) -> Endpoint:
        return await self._access.current()

    def ask_progress(self) -> None:
        """Ask from now on how much of the prompt is read, as the server tells it."""
        self._usual_dialect = Dialect(progress=True)

    async def _attempts(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        attempt, replaced, other = 1, 0, None
        while True:
            dialect = self._dialects.get(request.model, self._usual_dialect)
            endpoint, said = other, False
            try:
                endpoint = endpoint or await self._access.current()
                reading = self._wire.reading()
                source = _source(endpoint, request.model)
                accepted = source if dialect.attached else ""
                own = [restore_attached(each, accepted) for each in request.messages]
                body = self._wire.body(replace(request, messages=own), dialect)
                async with self._transport.post(endpoint, request.model, body) as answer:
                    tags = ThoughtTags(begun=request.model in self._begins_thought)
                    call = _Attempt(endpoint, request, reading, answer, tags)
                    while (event := await call.next_delta()) is not None:
                        said = said or not isinstance(event, PromptProgress)
                        yield event
                message = call.message()
                if tags.ends_alone:
                    self._begins_thought.add(request.model)
                if message.text or message.tool_calls:
                    yield replace(message, source=source)
                    return
                said = True
                yield ModelWasted(message)
                raise empty_failure(endpoint, request.model, message.finish_reason)
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
            yield retry
            await asyncio.sleep(retry.delay_s)
            attempt += 1

    async def _instead_of(
        self, endpoint: Endpoint | None, error: ModelError, replaced: int
    ) -> tuple[Endpoint | None, ModelError]:
        if endpoint is None:
            return None, error
        try:
            return await self._access.instead_of(endpoint, error, replaced), error
        except ModelError as unavailable:
            return None, unavailable


def _source(endpoint: Endpoint, model: str) -> str:
    """Who gets back what was attached to an answer: another model cannot read it."""
    host = urlsplit(endpoint.base_url).netloc.rpartition("@")[2]
    return f"{endpoint.provider} {endpoint.api} {host} {model}"


class _Attempt:
    def __init__(
        self,
        endpoint: Endpoint,
        request: ModelRequest,
        reading: Reading,
        answer: Answer,
        tags: ThoughtTags,
    ) -> None:
        self._endpoint = endpoint
        self._request = request
        self._reading = reading
        self._answer = answer
        self._decoder = SSEDecoder()
        self._tags = tags
        self._deltas: list[ModelEvent] = []
        self._head: bytes | None = b""
        """The blank beginning; None as soon as something else is there."""
        self._has_ended = False
        self._is_certain = False
        """Whether the server says that the answer is whole, if only by its form."""
        self._last: Json = {}
        """The last chunk, or the answer if it is not streamed."""

    async def next_delta(self) -> ModelEvent | None:
        while not self._deltas:
            if self._has_ended:
                await self._answer.drain()
                self._add_deltas(*self._tags.feed("", is_last=True))
                break
            self._add([chunk for payload in await self._read() for chunk in self._parse(payload)])
        return self._deltas.pop(0) if self._deltas else None

    def message(self) -> ModelMessage:
        is_blank = not (self._reading.finish_reason or self._tags.text)
        if is_blank and self._last and self._last.keys().isdisjoint(_KNOWN):
            raise stream_failure(self._endpoint, self._request.model, self._last)
        if not (self._reading.finish_reason or self._is_certain or self._reading.ended):
            raise cut_failure(self._endpoint, "it has no end")
        if self._reading.finish_reason == "error":
            raise stream_failure(self._endpoint, self._request.model, {})
        try:
            message = self._reading.message(self._request.model, self._endpoint.provider)
        except MalformedChunk as error:
            raise cut_failure(self._endpoint, str(error)) from error
        if not self._tags.found:
            return message
        thoughts = [each for each in (message.reasoning, self._tags.thoughts) if each]
        reasoning = well_formed("\n\n".join(thoughts))
        return replace(message, text=well_formed(self._tags.text), reasoning=reasoning)

    async def _read(self) -> list[bytes]:
        """The chunks that the next network read completes.

        What the body is shows in its first character, since proxies label it as something else.
        """
        data = await self._answer.read()
        if self._head is not None:
            self._head = data = (self._head + data).lstrip(_BLANK)
            if data.startswith(b"<"):
                raise not_a_stream_failure(self._endpoint, self._answer.content_type)
            if data.startswith((b"{", b"[")):
                return await self._read_document(data)
            self._head = None if data else b""
        self._has_ended = not data
        return self._until_done(self._events(data))

    async def _read_document(self, body: bytes) -> list[bytes]:
        """The rest of a body that is JSON: an answer that is not streamed, or chunks in lines."""
        while data := await self._answer.read():
            body += data
        self._has_ended = True
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            return self._until_done(self._events(body + b"\n") + self._events(b""))
        self._is_certain = True
        return [body]

    def _events(self, data: bytes) -> list[bytes]:
        try:
            return self._decoder.feed(data) if data else self._decoder.flush()
        except EventTooLarge as error:
            raise cut_failure(self._endpoint, "an event without end") from error

    def _until_done(self, payloads: list[bytes]) -> list[bytes]:
        whole = [payload for each in payloads if (payload := each.strip())]
        if _DONE in whole:
            del whole[whole.index(_DONE) :]
            self._has_ended = self._is_certain = True
        return whole

    def _parse(self, payload: bytes) -> list[Json]:
        try:
            found: object = json.loads(payload)
        except (ValueError, RecursionError):
            found = None
        chunks = objects_of(found)
        if not chunks:
            said = payload.decode(errors="replace")
            raise cut_failure(self._endpoint, f"not an object of JSON: {said}")
        for chunk in chunks:
            error = self._reading.failure(chunk)
            if error is not None:
                raise stream_failure(self._endpoint, self._request.model, error)
        return chunks

    def _add(self, chunks: Sequence[Json]) -> None:
        """Yields at most two deltas for all chunks of one read."""
        try:
            added = [self._reading.add(chunk) for chunk in chunks]
        except MalformedChunk as error:
            raise cut_failure(self._endpoint, str(error)) from error
        for told in (object_of(chunk.get("prompt_progress")) for chunk in chunks):
            if total := tokens(told.get("total")):
                self._deltas.append(PromptProgress(tokens(told.get("processed")), total))
        self._last = chunks[-1] if chunks else self._last
        self._has_ended = self._has_ended or self._reading.ended
        text, thoughts = self._tags.feed("".join(each for each, _ in added))
        self._add_deltas(text, "".join(each for _, each in added) + thoughts)

    def _add_deltas(self, text: str, reasoning: str) -> None:
        if reasoning:
            self._deltas.append(ReasoningDelta(well_formed(reasoning)))
        if text:
            self._deltas.append(TextDelta(well_formed(text)))
