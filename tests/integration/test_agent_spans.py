"""What the spans of a turn say of how it ended, as OpenTelemetry's own SDK has them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from hermes.agent.v1 import turn_pb2
from services.redaction.redactor import Redactor
from services.telemetry.tracing import CANCELLED, ERROR, Tracing, traced_by
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent

HANGS = {"text": "so it begins", "chunk_chars": 4, "hang_after": 2}
REFUSES = {"status": 401, "error": {"message": "bad key"}}


class Kept(SpanProcessor):
    """Keeps spans that have ended, by their names."""

    def __init__(self) -> None:
        self.spans: dict[str, ReadableSpan] = {}

    def on_end(self, span: ReadableSpan) -> None:
        self.spans[span.name] = span


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """OpenTelemetry's, which looks around in the system when it is made."""
    return TracerProvider(shutdown_on_exit=False)


async def spans(
    home: Path, provider: TracerProvider, reply: Mapping[str, object], *, stop: bool
) -> dict[str, ReadableSpan]:
    """The spans of a turn by their names, of one that is stopped where `stop` says so."""
    provider.add_span_processor(kept := Kept())
    tracer = Tracing(provider.get_tracer("test"), Redactor(), text=False)
    with traced_by(tracer):
        async with fake_model(answers(reply)) as model, agent(home, model.url) as client:
            turn = await client.start("hi")
            if stop:
                await client.until_it_says_something(turn.turn_id)
                request = turn_pb2.InterruptTurnRequest(turn_id=turn.turn_id)
                await client.turns.InterruptTurn(request)
            await client.watch(turn.turn_id)
    return kept.spans


async def test_what_is_cancelled_has_not_failed(tmp_path: Path, provider: TracerProvider) -> None:
    found = await spans(tmp_path, provider, HANGS, stop=True)
    for name in ("invoke_agent hermes", "chat scripted"):
        assert found[name].status.status_code is not StatusCode.ERROR
        said = dict(found[name].attributes or {})
        assert said[CANCELLED] is True
        assert ERROR not in said


async def test_what_fails_is_not_cancelled(tmp_path: Path, provider: TracerProvider) -> None:
    found = await spans(tmp_path, provider, REFUSES, stop=False)
    for name in ("invoke_agent hermes", "chat scripted"):
        assert found[name].status.status_code is StatusCode.ERROR
        assert CANCELLED not in dict(found[name].attributes or {})
