"""Asks a model a single question outside the conversation, such as about a picture."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from agent_service.models.fallback import USUAL, Route
from agent_service.models.instrumented_model import InstrumentedModel
from agent_service.records.model import ModelMessage, ModelRequest, Purpose, Unwatched, encoded
from agent_service.records.model_errors import ModelError
from agent_service.records.usage import Usage
from services.errors import HermesError


class NoAnswer(Exception):
    """The model gave no answer; the message says why."""


class Ask(Protocol):
    """Asks a model a single question."""

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        route: Route = USUAL,
        /,
        *,
        time_limit_s: float | None = None,
    ) -> str:
        """The answer, or NoAnswer; a route without a model leads to the default model."""
        ...


class PaidResult(Struct, frozen=True):
    """What a paid call of a provider made, and what it used."""

    data: bytes
    usage: Usage


class PaidCall(Protocol):
    """Makes a paid call that is no question to a model, such as for a picture."""

    async def __call__(
        self, model: str, provider: str, most: Usage, call: Callable[[], Awaitable[PaidResult]]
    ) -> bytes:
        """What the call made; NoAnswer if `most`, its maximum usage, is above a budget."""
        ...


class Help(Struct, frozen=True):
    """What a turn's tools may ask of providers, within its budgets."""

    ask: Ask
    spend: PaidCall


class ConsultAnswer(Struct, frozen=True):
    """The result of a question."""

    text: str
    """Empty if there is no answer."""
    paid: Sequence[ModelMessage]
    """Messages to pay for, whether or not they answer."""
    failure: str = ""


class Consult:
    """Sends single questions to models."""

    def __init__(
        self, model: InstrumentedModel, default_name: Callable[[], Awaitable[str]], max_tokens: int
    ) -> None:
        self._model = model
        self._default_name = default_name
        self._max_tokens = max_tokens

    async def request(
        self, messages: Sequence[Mapping[str, Any]], route: Route, purpose: Purpose = Purpose.TOOL
    ) -> ModelRequest:
        """The request for a question; NoAnswer if no model is available."""
        try:
            model = route.model or await self._default_name()
        except (ModelError, HermesError) as error:
            raise NoAnswer(str(error)) from error
        return ModelRequest(
            model=model,
            route=route.name,
            # Encoding a large picture would block the event loop.
            messages=await asyncio.to_thread(lambda: [encoded(message) for message in messages]),
            max_tokens=self._max_tokens,
            purpose=purpose,
        )

    async def answer(self, request: ModelRequest, time_limit_s: float | None) -> ConsultAnswer:
        call = Unwatched(self._model, request)
        try:
            async with asyncio.timeout(time_limit_s):
                text = (await call.answer()).text.strip()
        except TimeoutError:
            # The provider bills the request even if nobody reads the answer.
            paid = (*call.paid, self._model.interrupted(request, call.said))
            return ConsultAnswer("", paid, "the model's answer took too long")
        except (ModelError, HermesError) as error:
            return ConsultAnswer("", call.paid, str(error))
        return ConsultAnswer(text, call.paid, "" if text else "the model's answer is empty")
