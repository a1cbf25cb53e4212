"""Lists the models of an endpoint."""

from msgspec.structs import replace

from agent_service.models.catalog import ENDPOINT, ModelInfo
from agent_service.models.discovery import (
    ListingRefused,
    ListingUnreachable,
    chat_models,
    fetch_listing,
    listed_models,
)
from agent_service.models.endpoints import MESSAGES_VERSION, Api, Endpoint, key_header, url_below
from agent_service.models.failures import connection_failure, http_failure, proxy_failure
from agent_service.models.proxies import open_session
from agent_service.records.model_errors import InvalidEndpoint
from services.errors import ServiceUnavailable

LISTING_TIMEOUT_S = 3.0
_CODEX_LISTING = "?client_version=1.0.0"
"""Codex lists no models to clients without a version; this lists the newest."""
_TELLING = frozenset({401, 402, 403, 429})
"""Statuses that are no mere lack of a listing."""


async def list_models(
    endpoint: Endpoint, timeout_s: float = LISTING_TIMEOUT_S
) -> tuple[ModelInfo, ...]:
    """Return an endpoint's chat models, as far as it lists any.

    Raises ModelError if it cannot be reached or refuses the key.
    """
    path = "/v1/models" if endpoint.api is Api.MESSAGES else "/models"
    listing = await _fetch(endpoint, path, timeout_s)
    known = {info.id: info for info in listed_models(listing, ENDPOINT)}
    return tuple(known.get(name, ModelInfo(name, source=ENDPOINT)) for name in chat_models(listing))


async def check_key(endpoint: Endpoint, timeout_s: float = LISTING_TIMEOUT_S) -> None:
    """Raise ModelError if OpenRouter, which lists its models to everybody, refuses the key."""
    if endpoint.provider == "openrouter":
        await _fetch(endpoint, "/key", timeout_s)


async def _fetch(endpoint: Endpoint, path: str, timeout_s: float) -> bytes:
    """Return what is there, or nothing; raises ModelError as `list_models`."""
    url = url_below(endpoint.base_url, path)
    url += _CODEX_LISTING if endpoint.login == "codex" else ""
    is_native = endpoint.api is Api.MESSAGES
    headers = {"anthropic-version": MESSAGES_VERSION} if is_native else {}
    try:
        session = await open_session(url)
    except ServiceUnavailable as error:
        raise proxy_failure(endpoint, error.message) from None
    try:
        async with session:
            sent = {**headers, **_signature(endpoint), **endpoint.headers}
            return await fetch_listing(session, url, sent, timeout_s)
    except ListingRefused as refused:
        if refused.status not in _TELLING and refused.status < 500:
            return b""
        body = refused.body.decode(errors="replace")
        raise http_failure(endpoint, endpoint.model, refused.status, {}, body) from None
    except ListingUnreachable as error:
        raise connection_failure(endpoint, error.reason) from None


async def with_listed_model(endpoint: Endpoint) -> Endpoint:
    """Fill in an endpoint's first listed model; `InvalidEndpoint` if it lists none.

    Raises ModelError as `list_models`.
    """
    models = await list_models(endpoint)
    if not models:
        checked = "" if endpoint.login else ", and check HERMES_BASE_URL"
        raise InvalidEndpoint(f"{endpoint.shown_url} lists no models: set HERMES_MODEL{checked}.")
    return replace(endpoint, model=models[0].id)


def _signature(endpoint: Endpoint) -> dict[str, str]:
    key = endpoint.api_key.get_secret_value()
    usual = "X-Api-Key" if endpoint.api is Api.MESSAGES else "Authorization"
    name = key_header(endpoint.base_url, usual)
    return {name: f"Bearer {key}" if name == "Authorization" else key} if key else {}
