"""What a model says, and wants to have done, has no secrets by the time anybody hears of it."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from agent_service.models.base import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)
from agent_service.models.errors import ModelErrorKind
from agent_service.models.redacting import Redacting
from services.redact import MASK, Redactor

KNOWN = "canary.api.key.Zq8vTr2nWx5Lp0Gs"
SHAPED = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
URL = "postgres://app:example@localhost/app"


class Scripted:
    """A model that says what it is told to."""

    def __init__(self, events: Sequence[ModelEvent]) -> None:
        self._events = events

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        yield self._said()

    async def _said(self) -> AsyncGenerator[ModelEvent]:
        for event in self._events:
            yield event


async def heard(*events: ModelEvent) -> list[ModelEvent]:
    model = Redacting(Scripted(events), Redactor([KNOWN]))
    async with model.stream(ModelRequest("m", ())) as stream:
        return [event async for event in stream]


def answer(text: str = "", *calls: ToolCall) -> ModelMessage:
    return ModelMessage(text, "", calls, None, "stop", "m", "p")


async def test_an_answer_is_heard_without_secrets_in_pieces_and_whole() -> None:
    text = f"It is {KNOWN}, or {SHAPED}."
    deltas = [TextDelta(letter, 1) for letter in text]
    thought = [ReasoningDelta(letter, 1) for letter in f"hm, {KNOWN}"]
    *shown, message = await heard(
        *thought, *deltas, replace(answer(text), reasoning=f"hm, {KNOWN}")
    )
    assert isinstance(message, ModelMessage)
    assert message.text == f"It is {MASK}, or {MASK}."
    assert message.reasoning == f"hm, {MASK}"
    said = "".join(each.text for each in shown if isinstance(each, TextDelta))
    assert said == message.text
    thoughts = "".join(each.text for each in shown if isinstance(each, ReasoningDelta))
    assert thoughts == message.reasoning
    last_thought = max(at for at, each in enumerate(shown) if isinstance(each, ReasoningDelta))
    assert not any(isinstance(each, TextDelta) for each in shown[:last_thought])


async def test_what_is_ordinary_passes_as_the_same_objects() -> None:
    call = ToolCall("1", "terminal", json.dumps({"command": f"psql {URL}"}))
    events = (TextDelta("Hello", 1), TextDelta(" there", 1), answer("Hello there", call))
    found = await heard(*events)
    assert all(one is other for one, other in zip(found, events, strict=True))


async def test_an_attempt_that_fails_shows_nothing_of_what_it_held_back() -> None:
    retry = ModelRetry(1, ModelErrorKind.OVERLOADED, "again", 0)
    found = await heard(TextDelta(f"So {SHAPED[:20]}", 1), retry, TextDelta("No", 2), answer("No"))
    assert [each.text for each in found if isinstance(each, TextDelta)] == ["So ", "No"]


async def test_arguments_have_no_secrets_and_are_json_all_the_same() -> None:
    command = f"echo {KNOWN}\nexport GITHUB_TOKEN={SHAPED}\npsql {URL}"
    call = ToolCall("1", "terminal", json.dumps({"command": command}))
    (message,) = await heard(answer("", call))
    assert isinstance(message, ModelMessage)
    given = json.loads(message.tool_calls[0].arguments_json)
    assert given == {"command": f"echo {MASK}\nexport GITHUB_TOKEN={MASK}\npsql {URL}"}


async def test_reasoning_that_is_signed_is_sent_back_unchanged_or_not_at_all() -> None:
    kept = {"type": "thinking", "thinking": "hm", "signature": f"{SHAPED}=="}
    told = {"type": "thinking", "thinking": f"it is {KNOWN}", "signature": "abc"}
    said = {"type": "text", "text": f"It is {KNOWN}"}
    given = replace(answer(f"It is {KNOWN}"), reasoning_details=(kept, told, said))
    (message,) = await heard(given)
    assert isinstance(message, ModelMessage)
    assert message.reasoning_details == (kept, {"type": "text", "text": f"It is {MASK}"})
