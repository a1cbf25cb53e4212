"""A model that is called with what the catalogue knows of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from msgspec.structs import replace

from agent_service.models.base import Model, ModelEvent, ModelMessage, ModelRequest, ModelWasted
from agent_service.models.catalog import Catalog
from agent_service.models.pricing import counted


class Priced(Model, Protocol):
    """A Model whose answers have their cost."""

    def interrupted(self, request: ModelRequest, said: str) -> ModelMessage:
        """What a call had said when it was broken off, with what it is taken to have cost."""
        ...


class Catalogued:
    """A Model of which no longer answer is asked than it can give, and whose answers have their
    cost and the name under which they count.
    """

    def __init__(self, inner: Model, catalog: Catalog) -> None:
        self._inner = inner
        self._catalog = catalog

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Call the model."""
        max_tokens = self._catalog.longest_answer(request.model, request.max_tokens)
        request = replace(request, max_tokens=max_tokens)
        async with (
            self._inner.stream(request) as events,
            aclosing(self._priced(request, events)) as priced,
        ):
            yield priced

    async def _priced(
        self, request: ModelRequest, events: AsyncIterator[ModelEvent]
    ) -> AsyncGenerator[ModelEvent]:
        async for event in events:
            match event:
                case ModelMessage():
                    yield self._price(request, event)
                case ModelWasted(message):
                    yield ModelWasted(self._price(request, message))
                case _:
                    yield event

    def interrupted(self, request: ModelRequest, said: str) -> ModelMessage:
        """What a call had said when it was broken off, with what it is taken to have cost."""
        broken_off = ModelMessage(said, "", (), None, "interrupted", request.model, "")
        return self._price(request, broken_off)

    def _price(self, request: ModelRequest, message: ModelMessage) -> ModelMessage:
        """An answer with all that is known of its use."""
        message = counted(message, (*request.messages, request.tools))
        assert message.usage is not None, "it has been counted"
        name = self._catalog.answered(request.model, message)
        cost = self._catalog.cost_of(name, message.usage)
        return replace(message, model=name, usage=replace(message.usage, cost_micro_usd=cost))
