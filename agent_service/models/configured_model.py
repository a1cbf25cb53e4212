"""The configured model, chosen when it is first needed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from agent_service.models.access import Access
from agent_service.models.catalog import ModelInfo
from agent_service.models.discovery import served_model
from agent_service.models.endpoint_models import list_models, with_listed_model
from agent_service.models.endpoints import Api, Endpoint, EndpointSettings, configured_endpoint
from agent_service.models.openrouter import AppIdentity, OpenRouter
from agent_service.models.provider import Provider
from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.messages import Messages
from agent_service.models.wires.responses import Codex, Responses
from agent_service.models.wires.transcriptions import Transcriptions
from agent_service.models.wires.wire import Wire
from agent_service.records.errors import ModelNotConfigured
from agent_service.records.model import ModelEvent, ModelRequest
from agent_service.records.model_errors import InvalidEndpoint, ModelError, RetryPolicy


class CallSettings(Struct, frozen=True):
    """Settings for calls of all endpoints."""

    retries: RetryPolicy
    identity: AppIdentity
    cache_ttl: str = "5m"
    """How long marked content stays cached: 5m or 1h."""
    effort: str = ""
    """Reasoning effort: low, medium or high; empty is the model's default."""
    only: tuple[str, ...] = ()
    """The providers that OpenRouter may choose from; empty is all."""
    logprobs: bool = False


def provider_of(
    endpoint: Endpoint, calling: CallSettings, access: Access | None = None
) -> Provider:
    """The provider for an endpoint's API."""
    return Provider(endpoint, _wire(endpoint, calling), calling.retries, access=access)


def _wire(endpoint: Endpoint, calling: CallSettings) -> Wire:
    match endpoint.api:
        case Api.MESSAGES:
            return Messages(calling.cache_ttl, calling.effort)
        case Api.CHAT_COMPLETIONS if endpoint.provider == "openrouter":
            told = calling.identity, calling.effort, calling.cache_ttl, calling.only
            return OpenRouter(*told, logprobs=calling.logprobs)
        case Api.RESPONSES if endpoint.login == "codex":
            return Codex(calling.effort)
        case Api.RESPONSES:
            return Responses(calling.effort)
        case Api.TRANSCRIPTIONS:
            return Transcriptions()
        case Api.CHAT_COMPLETIONS:
            return ChatCompletions(calling.effort, logprobs=calling.logprobs)


class ConfiguredModel:
    """A Model that starts without an endpoint; a call says what to set."""

    def __init__(
        self,
        settings: EndpointSettings,
        connect: Callable[[Endpoint], Provider],
        missing: str,
        learn: Callable[[str, int], None],
    ) -> None:
        """`learn` takes a model's id and its tokens of context on a local server."""
        self._settings = settings
        self._connect = connect
        self._missing = missing
        self._learn = learn
        self._learned: set[str] = set()
        self._opened = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._chosen: tuple[Endpoint, Provider] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._opened.aclose()

    @property
    def configured_name(self) -> str:
        """The model's id if known without a request, else empty."""
        endpoint = self._endpoint
        return "" if endpoint is None else endpoint.model

    @property
    def is_local(self) -> bool:
        """Whether the model runs on a server of one's own."""
        endpoint = self._endpoint
        return endpoint is not None and endpoint.is_local

    @property
    def _endpoint(self) -> Endpoint | None:
        if self._chosen is not None:
            return self._chosen[0]
        try:
            return configured_endpoint(self._settings)
        except InvalidEndpoint:
            return None

    async def default_name(self) -> str:
        """The model's id at the endpoint; ModelNotConfigured if none is set."""
        endpoint, _ = await self._choose()
        return endpoint.model

    async def learn_window(self, model: str) -> None:
        """Ask a local server, once for each model, how much context it gives it."""
        endpoint, provider = await self._choose()
        if not endpoint.is_local or model in self._learned:
            return
        async with self._lock:
            if model not in self._learned:
                self._learned.add(model)
                served = await served_model(endpoint.base_url, endpoint.api_key, model)
                if served.tells_progress:
                    provider.ask_progress()
                self._learn(model, served.window)

    async def list_models(self) -> tuple[ModelInfo, ...]:
        _, model = await self._choose()
        return await list_models(await model.reached())

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        _, model = await self._choose()
        await self.learn_window(request.model)
        async with model.stream(request) as events:
            yield events

    async def _choose(self) -> tuple[Endpoint, Provider]:
        if self._chosen is None:
            async with self._lock:
                self._chosen = self._chosen or await self._open()
        return self._chosen

    async def _open(self) -> tuple[Endpoint, Provider]:
        try:
            endpoint = configured_endpoint(self._settings)
            if endpoint is None:
                raise ModelNotConfigured(self._missing)
            model = self._connect(endpoint)
            if not endpoint.model:
                listed = await with_listed_model(await model.reached())
                endpoint = replace(endpoint, model=listed.model)
        except (InvalidEndpoint, ModelError) as error:
            raise ModelNotConfigured(str(error)) from error
        return endpoint, await self._opened.enter_async_context(model)
