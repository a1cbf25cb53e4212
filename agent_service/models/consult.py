"""One question to a model outside the conversation, such as what is in a picture."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from agent_service.models.base import Model, ModelMessage, ModelRequest, encoded, whole_answer
from agent_service.models.errors import ModelError
from agent_service.models.fallback import USUAL, Route
from services.errors import HermesError


class NoAnswer(Exception):
    """The model gave no answer; the message says why."""


class Ask(Protocol):
    """Asks a model a single question."""

    async def __call__(self, messages: Sequence[Mapping[str, Any]], route: Route = USUAL, /) -> str:
        """The answer to messages; a route without a model is the one to the usual model.

        Fails with NoAnswer.
        """
        ...


class Consult:
    """Makes single questions into requests, and gets their answers."""

    def __init__(
        self, model: Model, default_name: Callable[[], Awaitable[str]], max_tokens: int
    ) -> None:
        self._model = model
        self._default_name = default_name
        self._max_tokens = max_tokens

    async def request(self, messages: Sequence[Mapping[str, Any]], route: Route) -> ModelRequest:
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
        )

    async def answer(self, request: ModelRequest) -> ModelMessage:
        """The answer, which says something; NoAnswer otherwise."""
        try:
            answer = await whole_answer(self._model, request)
        except (ModelError, HermesError) as error:
            raise NoAnswer(str(error)) from error
        if not answer.text.strip():
            raise NoAnswer("the model's answer is empty")
        return answer
