"""The order of fallback models, and which of them rest after a failure."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol, Self

from msgspec import Struct

from agent_service.records.model import Model, ModelEvent, ModelRequest
from agent_service.records.model_errors import REST_S, ModelError, ModelErrorKind
from services.clock import Clock

Kind = ModelErrorKind

FIRST = ""
"""The name of the route to the configured model."""

_USUAL_REST_S = 30.0


class Route(Struct, frozen=True):
    """A model at an endpoint; the configured one has no name, and any model."""

    name: str = FIRST
    model: str = ""


USUAL = Route()
"""The route to the configured model."""


class Opened(Model, Protocol):
    """A Model that holds connections until its context ends."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc_info: object) -> None: ...


class RoutedModel:
    """A Model that calls the model of the request's route."""

    def __init__(self, first: Opened, others: Mapping[str, Opened]) -> None:
        self._first = first
        self._others = others
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for model in (self._first, *self._others.values()):
            await self._opened.enter_async_context(model)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._opened.aclose()

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return self._others.get(request.route, self._first).stream(request)


class Chain:
    """The routes in order of preference; one that has failed rests for a while."""

    def __init__(self, others: Sequence[Route], clock: Clock) -> None:
        self.routes = (Route(), *others)
        self._clock = clock
        self._rests_until: dict[str, float] = {}

    def find(self, name: str) -> Route:
        """The route with that name, or the first if it no longer exists."""
        return next((route for route in self.routes if route.name == name), self.routes[0])

    def rest_s(self, route: Route) -> float:
        """How long the route still rests; 0 if it does not."""
        return max(0.0, self._rests_until.get(route.name, 0.0) - self._clock.monotonic())

    def choose(self, route: Route) -> Route:
        """The route itself, or if it rests the first that does not."""
        if not self.rest_s(route):
            return route
        return next((other for other in self.routes if not self.rest_s(other)), route)

    def find_next(self, tried: Collection[str]) -> Route | None:
        """The first untried route, resting ones last; None if there is none."""
        left = [route for route in self.routes if route.name not in tried]
        return min(left, key=lambda route: self.rest_s(route) > 0, default=None)

    def mark_failed(self, route: Route, error: ModelError) -> None:
        """Let a route rest, as long as its provider asks or by the kind of error."""
        if error.kind is Kind.CONTENT_POLICY:
            return  # specific to this request
        rest_s = error.rest_s(REST_S.get(error.kind, _USUAL_REST_S))
        self._rests_until[route.name] = self._clock.monotonic() + rest_s

    def mark_answered(self, route: Route) -> None:
        self._rests_until.pop(route.name, None)


def is_worth_another_model(error: ModelError) -> bool:
    """Whether another model may accept what this one refused."""
    return error.kind not in (Kind.BAD_REQUEST, Kind.CONTEXT_OVERFLOW)
