"""Model calls are counted and timed however they end, and nobody hears a secret of them."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from agent_service.models.catalog import Catalog, ModelInfo, Override
from agent_service.models.costs import Price
from agent_service.models.instrumented_model import InstrumentedModel, ModelMetrics
from agent_service.records.events import ReasoningDelta, TextDelta
from agent_service.records.model import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
    Purpose,
    ToolCall,
)
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.usage import Usage
from services.clock import SystemClock
from services.redaction.redactor import MASK, Redactor
from services.telemetry.metrics import Meter

BUSY = ModelErrorKind.OVERLOADED
SAID = ModelMessage("42", "", (), Usage(100, 10, 60, 0, 2_000_000), "stop", "m", "p")
NOTHING = ModelMessage("", "", (), Usage(200, 30, 0, 0, 500_000), "stop", "m", "p")
REQUEST = ModelRequest("m", (), purpose=Purpose.TITLE)


async def _unasked() -> list[ModelInfo]:
    raise AssertionError("no list of models is needed")


PRICE = Price(1_000_000, 2_000_000, 0, 0)
CATALOG = Catalog(Path("none.json"), _unasked, {"m": Override(price=PRICE)})
NAMED = {"gen_ai_request_model": "m", "gen_ai_provider_name": "p"}


class Moved(SystemClock):
    """A clock that shows another second each time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


class Scripted:
    """A model that says what it is given, and then fails if that is asked."""

    def __init__(self, *events: ModelEvent, failure: ModelError | None = None) -> None:
        self._events = events
        self._failure = failure

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        yield self._said()

    async def _said(self) -> AsyncGenerator[ModelEvent]:
        for event in self._events:
            yield event
        if self._failure is not None:
            raise self._failure


class Counted:
    """A metered model, and what has been counted of it."""

    def __init__(self, model: Scripted, *known: str) -> None:
        registry = CollectorRegistry()
        self.model = InstrumentedModel(
            model, Redactor(known), CATALOG, ModelMetrics.make(Meter(registry), bool), Moved()
        )
        self._value = registry.get_sample_value

    async def call(self) -> list[ModelEvent]:
        async with self.model.stream(REQUEST) as events:
            return [event async for event in events]

    def value(self, name: str, **labels: str) -> float | None:
        return self._value(name, labels)

    @property
    def cost_usd(self) -> float | None:
        return self.value("hermes_llm_cost_usd_total", provider="p", model="m", purpose="title")


async def test_an_answer_is_counted_and_timed_from_the_beginning() -> None:
    retry = ModelRetry(1, BUSY, "busy", 0)
    counted = Counted(Scripted(retry, ModelWasted(NOTHING), TextDelta("4"), SAID))
    assert (await counted.call())[-1] == SAID
    assert counted.value("hermes_llm_errors_total", kind="overloaded") == 1
    assert counted.value("hermes_llm_errors_total", kind="auth") == 0
    assert counted.value("hermes_llm_retries_total") == 1
    assert counted.cost_usd == 2.5
    assert counted.value("hermes_prompt_cache_read_tokens_total") == 60
    for kind, tokens in (("input", 300), ("output", 40)):
        labels = {**NAMED, "gen_ai_token_type": kind}
        assert counted.value("gen_ai_client_token_usage_sum", **labels) == tokens
    first = "gen_ai_client_operation_time_to_first_chunk_seconds_sum"
    assert counted.value(first, **NAMED) == 1
    assert counted.value("gen_ai_client_operation_duration_seconds_sum", **NAMED) == 2


async def test_a_failure_is_counted_by_its_kind_and_not_timed() -> None:
    counted = Counted(Scripted(failure=ModelError(ModelErrorKind.AUTH, "no")))
    with pytest.raises(ModelError):
        await counted.call()
    assert counted.value("hermes_llm_errors_total", kind="auth") == 1
    assert counted.value("hermes_llm_retries_total") == 0
    assert counted.value("gen_ai_client_operation_duration_seconds_sum", **NAMED) is None


def test_what_is_broken_off_is_paid_for() -> None:
    counted = Counted(Scripted())
    message = counted.model.interrupted(REQUEST, "12345678")
    assert message.usage is not None
    assert message.usage.completion_tokens == 2
    labels = {"provider": "other", "model": "m", "purpose": "title"}
    assert counted.value("hermes_llm_cost_usd_total", **labels) == 4e-6


KNOWN = "canary.api.key.Zq8vTr2nWx5Lp0Gs"
SHAPED = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
URL = "postgres://app:example@localhost/app"


async def heard(*events: ModelEvent) -> list[ModelEvent]:
    return await Counted(Scripted(*events), KNOWN).call()


def answer(text: str = "", *calls: ToolCall) -> ModelMessage:
    return ModelMessage(text, "", calls, None, "stop", "m", "p")


async def test_an_answer_is_heard_without_secrets_in_pieces_and_whole() -> None:
    text = f"It is {KNOWN}, or {SHAPED}."
    deltas = [TextDelta(letter) for letter in text]
    thought = [ReasoningDelta(letter) for letter in f"hm, {KNOWN}"]
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
    events = (TextDelta("Hello"), TextDelta(" there"), answer("Hello there", call))
    *found, message = await heard(*events)
    assert all(one is other for one, other in zip(found, events[:-1], strict=True))
    assert isinstance(message, ModelMessage)
    assert message.tool_calls[0] is call


async def test_an_attempt_that_fails_shows_nothing_of_what_it_held_back() -> None:
    retry = ModelRetry(1, ModelErrorKind.OVERLOADED, "again", 0)
    found = await heard(TextDelta(f"So {SHAPED[:20]}"), retry, TextDelta("No"), answer("No"))
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
