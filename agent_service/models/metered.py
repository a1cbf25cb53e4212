"""Counts and times every model call, whoever makes it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from agent_service.models.base import (
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ModelWasted,
)
from agent_service.models.catalogued import Priced
from agent_service.models.errors import ModelError
from agent_service.models.metrics import ModelMetrics
from services.clock import Clock


class Metered:
    """A Model of which every call is counted and timed."""

    def __init__(self, inner: Priced, metrics: ModelMetrics, clock: Clock) -> None:
        self._inner = inner
        self._metrics = metrics
        self._clock = clock

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Call the model."""
        began = self._clock.monotonic()
        async with (
            self._inner.stream(request) as events,
            aclosing(self._watched(request, events, began)) as watched,
        ):
            yield watched

    async def _watched(
        self, request: ModelRequest, events: AsyncIterator[ModelEvent], began: float
    ) -> AsyncGenerator[ModelEvent]:
        metrics, first_chunk_s = self._metrics, None
        try:
            async for event in events:
                match event:
                    case ModelRetry(reason=kind):
                        metrics.errors.labels(kind).inc()
                        metrics.retries.inc()
                    case ModelWasted(message):
                        metrics.paid(request, message)
                    case ModelMessage():
                        seconds = self._clock.monotonic() - began
                        metrics.answered(event, first_chunk_s or seconds, seconds)
                        metrics.paid(request, event)
                    case _ if first_chunk_s is None:
                        first_chunk_s = self._clock.monotonic() - began
                    case _:
                        pass
                yield event
        except ModelError as error:
            metrics.errors.labels(error.kind).inc()
            raise

    def interrupted(self, request: ModelRequest, said: str) -> ModelMessage:
        """What a call had said when it was broken off, with what it is taken to have cost."""
        message = self._inner.interrupted(request, said)
        self._metrics.paid(request, message)
        return message
