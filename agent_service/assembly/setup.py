"""What `hermes setup` asks of model endpoints: who serves models, and whether a key is accepted."""

import asyncio
from functools import partial

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.assembly.logins import opened_store
from agent_service.assembly.models import credentials, endpoint_settings
from agent_service.config import AgentConfig
from agent_service.models.access import access_of
from agent_service.models.catalog import Catalog, ModelInfo
from agent_service.models.discovery import (
    chat_models,
    discover_local,
    fetch_models,
    listed_models,
    served_window,
)
from agent_service.models.endpoints import (
    MESSAGES_VERSION,
    Api,
    Endpoint,
    configured_endpoint,
    listed_by,
    missing_endpoint,
    url_below,
)
from agent_service.models.failures import connection_failure, http_failure
from agent_service.models.proxies import client_for
from agent_service.records.model_errors import InvalidEndpoint, ModelError
from services.clock import SystemClock
from services.config.settings import Settings
from services.errors import FailedPrecondition, HermesError
from services.runtime.checks import ModelOffer, OfferedModel

TIMEOUT_S = 15.0


async def local_servers() -> tuple[ModelOffer, ...]:
    """Return the model servers of this machine."""
    servers = await discover_local()
    return tuple(ModelOffer(found.name, found.base_url, found.models[0]) for found in servers)


async def offered_models(
    settings: Settings, provider: str, base_url: str, key: str
) -> tuple[OfferedModel, ...]:
    """List an endpoint's models; FailedPrecondition says why it does not accept the key."""
    config, clock = settings.load(AgentConfig), SystemClock()
    usual, given = endpoint_settings(settings, config), SecretStr(key)
    keys = {**usual.keys, provider: (given,)} if key else usual.keys
    asked = replace(
        usual, provider=provider, base_url=base_url, api_key=given, keys=keys, model="", api=""
    )
    try:
        endpoint = configured_endpoint(asked)
        if endpoint is None:
            raise FailedPrecondition(missing_endpoint(str(settings.home.env)))
        async with opened_store(settings, config) as store:
            access = access_of(endpoint, credentials(store, config, clock), clock)
            reached = await access.current()
        listing = await _listing(reached)
        ids = chat_models(listing) or await listed_by(reached, TIMEOUT_S)
    except (InvalidEndpoint, ModelError) as error:
        raise FailedPrecondition(str(error)) from error
    fetch = partial(fetch_models, config.model.catalog_url)
    catalog = Catalog(settings.home.state / "models.json", fetch)
    await catalog.open()
    told = {info.id: info for info in listed_models(listing)}
    usual_id = endpoint.model
    ordered = sorted(ids, key=lambda name: name != usual_id)
    return tuple(_offered(name, told.get(name), catalog.find(name)) for name in ordered)


async def window_of(base_url: str, key: str, model: str) -> int:
    """Return the tokens of context that a local server gives a model; 0 if unknown."""
    return await served_window(base_url, SecretStr(key), model)


async def _listing(endpoint: Endpoint) -> bytes:
    """Return the endpoint's list of models, after its key was accepted; raises ModelError."""
    import httpx

    native = endpoint.api is Api.MESSAGES
    key = endpoint.api_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}", "x-api-key": key} if key else {}
    headers |= {"anthropic-version": MESSAGES_VERSION} if native else {}
    # OpenRouter lists its models to everybody.
    checked = ["/key"] if endpoint.provider == "openrouter" else []
    body = b""
    try:
        opened = await asyncio.to_thread(
            client_for, endpoint.base_url, headers={**headers, **endpoint.headers}
        )
        async with opened as client:
            for path in (*checked, "/v1/models" if native else "/models"):
                url = url_below(endpoint.base_url, path)
                answer = await client.get(url, timeout=TIMEOUT_S)
                body = answer.content
                if answer.status_code in (401, 402, 403) or answer.status_code >= 500:
                    told = answer.headers
                    raise http_failure(endpoint, endpoint.model, answer.status_code, told, "")
    except (httpx.HTTPError, httpx.InvalidURL, HermesError) as error:
        raise connection_failure(endpoint, str(error) or type(error).__name__) from error
    return body


def _offered(name: str, told: ModelInfo | None, known: ModelInfo) -> OfferedModel:
    price = (told.price if told else None) or known.price
    window = (told.window if told else 0) or known.window
    paid = (price.input, price.output) if price else None
    return OfferedModel(name, window, paid)
