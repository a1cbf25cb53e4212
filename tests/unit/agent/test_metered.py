"""Every model call is counted and timed, however it ends."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agent_service.models.base import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
    Purpose,
    TextDelta,
    Usage,
)
from agent_service.models.catalog import Catalog, ModelInfo, Override
from agent_service.models.errors import ModelError, ModelErrorKind
from agent_service.models.metered import Metered, ModelMetrics
from agent_service.models.pricing import Price
from services.clock import SystemClock
from services.metrics import Meter

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

    def __init__(self, model: Scripted) -> None:
        registry = CollectorRegistry()
        self.model = Metered(model, CATALOG, ModelMetrics.create(Meter(registry), bool), Moved())
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
    counted = Counted(Scripted(retry, ModelWasted(NOTHING), TextDelta("4", 2), SAID))
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
