"""Single questions to models: every end that they come to, and what of it has to be paid for."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from agent_service.models.catalog import Catalog, ModelInfo
from agent_service.models.consult import Consult, ConsultAnswer
from agent_service.models.fallback import USUAL
from agent_service.models.instrumented_model import InstrumentedModel, ModelMetrics
from agent_service.records.events import TextDelta
from agent_service.records.model import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelWasted,
    usage_of,
)
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.usage import Usage
from services.clock import SystemClock
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter

SAID = ModelMessage(" 42 ", "", (), Usage(100, 10), "stop", "m", "p")
NOTHING = ModelMessage("", "", (), Usage(200, 30), "stop", "m", "p")
BLANK = ModelMessage(" \n", "", (), Usage(300, 1), "stop", "m", "p")
EMPTY = ModelError(ModelErrorKind.EMPTY, "it answered nothing")


class Scripted:
    """A model that says what it is given, and then fails or never ends."""

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
        await asyncio.Event().wait()


async def _unasked() -> list[ModelInfo]:
    raise AssertionError("no list of models is needed")


async def asked(model: Scripted, time_limit_s: float | None = None) -> ConsultAnswer:
    async def name() -> str:
        return "m"

    metrics = ModelMetrics.make(Meter(CollectorRegistry()), bool)
    metered = InstrumentedModel(
        model, Redactor(), Catalog(Path("none.json"), _unasked), metrics, SystemClock()
    )
    consult = Consult(metered, name, 100)
    request = await consult.request([{"role": "user", "content": "x" * 4000}], USUAL)
    return await consult.answer(request, time_limit_s)


@pytest.mark.parametrize(
    ("model", "text", "failure", "tokens"),
    [
        (Scripted(SAID), "42", "", 110),
        (Scripted(ModelWasted(NOTHING), SAID), "42", "", 340),
        (Scripted(BLANK), "", "answer is empty", 301),
        (Scripted(ModelWasted(NOTHING), ModelWasted(NOTHING), failure=EMPTY), "", "nothing", 460),
        (Scripted(failure=EMPTY), "", "answered nothing", 0),
    ],
)
async def test_every_end_says_what_it_cost(
    model: Scripted, text: str, failure: str, tokens: int
) -> None:
    given = await asked(model)
    assert given.text == text
    assert failure in given.failure
    assert bool(given.failure) is not bool(text)
    assert usage_of(given.paid).tokens == tokens


async def test_an_answer_that_comes_too_late_is_paid_for_as_far_as_it_came() -> None:
    given = await asked(Scripted(TextDelta("y" * 400)), time_limit_s=0.05)
    assert (given.text, given.failure) == ("", "the model's answer took too long")
    (late,) = given.paid
    assert late.usage is not None
    assert late.usage.prompt_tokens >= 1000
    assert late.usage.completion_tokens == 100
