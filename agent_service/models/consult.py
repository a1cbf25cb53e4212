"""One question to a model outside the conversation, such as what is in a picture."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from agent_service.models.fallback import USUAL, Route
from agent_service.models.instrumented_model import InstrumentedModel
from agent_service.records.model import ModelMessage, ModelRequest, Purpose, Unwatched, encoded
from agent_service.records.model_errors import ModelError
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
        """The answer to messages; a route without a model is the one to the usual model.

        Fails with NoAnswer, also when the time is over.
        """
        ...


class ConsultAnswer(Struct, frozen=True):
    """What came of a question."""

    text: str
    """Empty where there is no answer."""
    paid: Sequence[ModelMessage]
    """What has to be paid for, whether it answers or not."""
    failure: str = ""
    """Why there is none."""


class Consult:
    """Makes single questions into requests, and gets their answers."""

    def __init__(
        self, model: InstrumentedModel, default_name: Callable[[], Awaitable[str]], max_tokens: int
    ) -> None:
        self._model = model
        self._default_name = default_name
        self._max_tokens = max_tokens

    async def request(
        self, messages: Sequence[Mapping[str, Any]], route: Route, purpose: Purpose = Purpose.TOOL
    ) -> ModelRequest:
        """The request that a question is; NoAnswer where nobody can be asked."""
        try:
            model = route.model or await self._default_name()
        except (ModelError, HermesError) as error:
            raise NoAnswer(str(error)) from error
        return ModelRequest(
            model=model,
            route=route.name,
            # A picture of some megabytes would hold everybody else up.
            messages=await asyncio.to_thread(lambda: [encoded(message) for message in messages]),
            max_tokens=self._max_tokens,
            purpose=purpose,
        )

    async def answer(self, request: ModelRequest, time_limit_s: float | None) -> ConsultAnswer:
        """What comes of a request within the time."""
        call = Unwatched(self._model, request)
        try:
            async with asyncio.timeout(time_limit_s):
                text = (await call.answer()).text.strip()
        except TimeoutError:
            # It was sent, and whoever works on it is paid although nobody reads on.
            paid = (*call.paid, self._model.interrupted(request, call.said))
            return ConsultAnswer("", paid, "the model's answer took too long")
        except (ModelError, HermesError) as error:
            return ConsultAnswer("", call.paid, str(error))
        return ConsultAnswer(text, call.paid, "" if text else "the model's answer is empty")
