"""One trace from a message's receipt, or a job's run, to what is sent, over restarts."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from services.redaction.redactor import Redactor
from services.telemetry.tracing import Tracing, traced_by
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import WITH_JOBS, Hermes, hermes

PLAN = {"name": "todo", "arguments": {"todos": [{"id": "1", "content": "look"}]}}
PLANS = {"tool_calls": [PLAN]}
HANGS = {"text": "well", "chunk_chars": 2, "hang_after": 1}
DONE = {"text": "done"}
START = "hermes.agent.v1.TurnService/StartTurn"
DELIVER = "hermes.gateway.v1.DeliveryService/Deliver"
TURN, TOOL = "invoke_agent hermes", "execute_tool todo"
"""The spans of a turn, as OpenTelemetry has them."""


def identity(span: ReadableSpan) -> SpanContext:
    """What names a span, which all have that were begun."""
    assert span.context is not None
    return span.context


class Spans:
    """What was traced."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = Tracing(provider.get_tracer("test"), Redactor(), text=False)

    def named(self, name: str, **attributes: str) -> list[ReadableSpan]:
        """Those that have ended and say so of themselves, oldest first."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}.items()
        ended = self._kept.get_finished_spans()
        return [s for s in ended if s.name == name and wanted <= dict(s.attributes or {}).items()]

    async def until(self, name: str, count: int = 1, **attributes: str) -> Sequence[ReadableSpan]:
        """Those, once there are so many."""
        async with asyncio.timeout(30):
            while len(found := self.named(name, **attributes)) < count:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        return found

    def way_of(self, span: ReadableSpan) -> list[str]:
        """The names of the spans above it, up to where its trace begins."""
        by_id = {identity(each).span_id: each for each in self._kept.get_finished_spans()}
        names: list[str] = []
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.append(span.name)
        return names


@pytest.fixture
async def spans() -> Spans:
    return await asyncio.to_thread(Spans)


@asynccontextmanager
async def run(
    folder: Path, telegram: FakeTelegram, model: FakeModel, spans: Spans
) -> AsyncGenerator[Hermes]:
    """One life of services that trace, whose bot one person may talk to."""
    environ = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7",
    }
    with traced_by(spans.tracer):
        async with hermes(folder, model.url, "", environ, WITH_JOBS) as running:
            yield running


def script(*steps: Any) -> dict[str, Any]:
    return {"rules": [{"steps": list(steps)}]}


async def test_a_message_is_one_trace_to_its_answer_though_all_are_restarted(
    tmp_path: Path, spans: Spans
) -> None:
    async with fake_telegram() as telegram, fake_model(script(PLANS, [HANGS, DONE])) as model:
        async with run(tmp_path, telegram, model, spans):
            await telegram.say(1, "hi")
            await model.until(lambda: len(model.requests) == 2)
        async with run(tmp_path, telegram, model, spans):
            await telegram.until(lambda: telegram.texts(1) == ["done"])
            shown, answer = (await spans.until("deliver", 2))[-2:]
    entrance = [START, START, "message", "receive"]
    first, second = spans.named(TURN)
    assert spans.way_of(first) == spans.way_of(second) == entrance
    (tool,) = spans.named(TOOL)
    assert spans.way_of(tool) == [TURN, *entrance]
    assert spans.way_of(shown) == spans.way_of(answer) == ["receive"]
    (received,) = spans.named("receive")
    traced = (received, first, second, tool, shown, answer)
    assert len({identity(each).trace_id for each in traced}) == 1
    assert dict(answer.attributes or {})["hermes.delivery.state"] == "sent"


async def test_a_run_of_a_job_is_one_trace_to_what_it_delivers(
    tmp_path: Path, spans: Spans
) -> None:
    async with (
        fake_telegram() as telegram,
        fake_model(script(PLANS, DONE)) as model,
        run(tmp_path, telegram, model, spans) as running,
    ):
        await telegram.say(1, "/cron add in 1 second tea")
        await telegram.until(lambda: any("done" in each for each in telegram.texts(1)))
        (job,) = await spans.until("job")
        query = "SELECT id, traceparent FROM run"
        ((run_id, traceparent),) = await running.rows("scheduler", query)
        (sent,) = await spans.until("deliver", hermes_delivery_id=run_id)
    (turn,) = spans.named(TURN)
    (tool,) = spans.named(TOOL)
    assert job.parent is None
    assert job.status.is_unset
    assert traceparent.split("-")[1:3] == [
        f"{identity(job).trace_id:032x}",
        f"{identity(job).span_id:016x}",
    ]
    assert spans.way_of(tool) == [TURN, START, START, "job"]
    assert spans.way_of(turn) == [START, START, "job"]
    assert spans.way_of(sent) == [DELIVER, DELIVER, "job"]
