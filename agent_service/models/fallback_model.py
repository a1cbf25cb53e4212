"""Switches a turn to another model when its model fails."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from agent_service.models.fallback import FIRST, Chain, Route, is_worth_another_model
from agent_service.records.errors import ModelNotConfigured
from agent_service.records.events import Notice
from agent_service.records.model import Model, ModelEvent, ModelRequest
from agent_service.records.model_errors import ModelError
from agent_service.records.requests import Switched
from agent_service.records.turn_state import LiveTurn

_log = logging.getLogger(__name__)

Failure = ModelError | ModelNotConfigured


class FallbackModel:
    """The model of one turn: its route's, or others of the chain when that fails.

    A turn keeps the model that took over; the next turn starts with the first unless that rests.
    The caller stores each switch before it continues, so that a new owner uses the same model.
    """

    def __init__(
        self,
        inner: Model,
        chain: Chain,
        turn: LiveTurn,
        reserve: Callable[[ModelRequest], Awaitable[Mapping[str, str]]],
    ) -> None:
        """`reserve` reserves a call's maximum cost and returns warnings by subject."""
        self._inner = inner
        self._chain = chain
        self._turn = turn
        self._reserve = reserve
        self._warnings: set[str] = set()

    def stream(self, request: ModelRequest) -> "aclosing[AsyncGenerator[ModelEvent]]":
        return aclosing(self._answer(request))

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        usual = self._chain.find(self._turn.route)
        route = self._chain.choose(usual)
        # Clients that connect later miss live events, so notices wait until the model answers.
        notices = [] if route is usual else [self._explain_rest(usual, route)]
        if route.name != self._turn.route:
            yield Switched(route.name, self._model_of(route))
        failures: dict[str, Failure] = {}
        while True:
            asked = replace(request, route=route.name, model=self._model_of(route))
            notices += self._take_new(await self._reserve(asked))
            try:
                async with self._inner.stream(asked) as events:
                    first = await anext(events)
                    while notices:
                        yield Notice(notices.pop(0))
                    yield first
                    async for event in events:
                        yield event
            except (ModelError, ModelNotConfigured) as error:
                failures[route.name] = error
                following = self._find_next(route, error, failures)
                if following is None:
                    raise _combine(failures, error) from error
                failed, route = error, following
            else:
                self._chain.mark_answered(route)
                return
            going_on = f"Going on with {self._describe(route)} for the rest of this turn."
            notices.append(f"{failed} {going_on}")
            yield Switched(route.name, self._model_of(route))

    def _take_new(self, warnings: Mapping[str, str]) -> list[str]:
        unsaid = [text for about, text in warnings.items() if about not in self._warnings]
        self._warnings |= warnings.keys()
        return unsaid

    def _find_next(
        self, route: Route, error: Failure, failures: dict[str, Failure]
    ) -> Route | None:
        if isinstance(error, ModelError):
            if not is_worth_another_model(error):
                return None
            self._chain.mark_failed(route, error)
        elif route.name == FIRST:
            return None
        _log.warning("%s does not answer: %s", route.name or "the configured model", error)
        return self._chain.find_next(failures)

    def _explain_rest(self, usual: Route, route: Route) -> str:
        rest_s = self._chain.rest_s(usual)
        return (
            f"{self._describe(usual)} has failed a moment ago and is left alone for another "
            f"{rest_s:.0f} s. {self._describe(route)} answers this turn."
        )

    def _model_of(self, route: Route) -> str:
        return route.model or self._turn.options.model

    def _describe(self, route: Route) -> str:
        return route.name or self._turn.options.model


def _combine(failures: dict[str, Failure], last: Failure) -> Failure:
    first, *others = failures.items()
    if not others or (isinstance(last, ModelError) and not is_worth_another_model(last)):
        return last
    told = " ".join(f"{name or 'The configured model'}: {error}" for name, error in others)
    message = f"{first[1]} Nor did any other model of the chain answer. {told}"
    if isinstance(first[1], ModelError):
        error = first[1]
        return ModelError(
            error.kind,
            message,
            retry_after_s=error.retry_after_s,
            status=error.status,
            detail=error.detail,
        )
    return ModelNotConfigured(message)
