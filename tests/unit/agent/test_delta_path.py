"""How many generators a piece of an answer goes through on its way to the turn loop."""

import inspect
from types import FrameType

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from agent_service.models.endpoints import Endpoint
from agent_service.models.fallback import Chain
from agent_service.models.fallback_model import FallbackModel
from agent_service.models.instrumented_model import InstrumentedModel, ModelMetrics
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import Assembly, ChatCompletions
from agent_service.models.wires.wire import Json
from agent_service.records.model import ModelMessage, ModelRequest
from services.clock import SystemClock
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter
from tests.fakes.model import answers, fake_model
from tests.unit.agent.test_compression import a_turn, user
from tests.unit.agent.test_instrumented import CATALOG

MOST = 3
"""With the loop's own three, a delta passes six generators."""


class Counting(Assembly):
    """Counts the generators that wait for an answer."""

    def __init__(self, counts: list[int]) -> None:
        super().__init__()
        self._counts = counts

    def add(self, chunk: Json) -> tuple[str, str]:
        frame: FrameType | None = inspect.currentframe()
        count = 0
        while frame is not None:
            count += bool(frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR)
            frame = frame.f_back
        self._counts.append(count)
        return super().add(chunk)


class CountingWire(ChatCompletions):
    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def reading(self) -> Assembly:
        return Counting(self.counts)


async def _reserve(_: ModelRequest) -> dict[str, str]:
    return {}


async def test_few_generators_stand_between_the_network_and_the_turn_loop() -> None:
    wire, clock, turn = CountingWire(), SystemClock(), a_turn([user("Hello?")])
    metrics = ModelMetrics.make(Meter(CollectorRegistry()), bool)
    async with fake_model(answers({"text": "Yes, here I am.", "chunk_chars": 3})) as server:
        key = SecretStr("key")
        endpoint = Endpoint(server.url, key, "scripted", "custom", "test", "HERMES_API_KEY")
        async with Provider(endpoint, wire) as provider:
            inner = InstrumentedModel(provider, Redactor(), CATALOG, metrics, clock)
            model = FallbackModel(inner, Chain((), clock), turn, _reserve)
            async with model.stream(ModelRequest("scripted", turn.messages)) as events:
                said = [event async for event in events]
    assert isinstance(said[-1], ModelMessage)
    assert said[-1].text == "Yes, here I am."
    assert wire.counts
    assert max(wire.counts) == MOST
