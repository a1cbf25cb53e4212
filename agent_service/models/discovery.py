"""Asks servers which models they have: local ones, endpoints, and the catalogue of OpenRouter."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import SecretStr

from agent_service.models.catalog import REFRESHED, ModelInfo, count
from agent_service.models.pricing import PER_TOKENS, Price
from services.errors import ServiceUnavailable
from services.task_groups import all_of

if TYPE_CHECKING:
    from httpx import AsyncClient

LOCAL_PORTS: Mapping[str, int] = {
    "Ollama": 11434,
    "LM Studio": 1234,
    "llama.cpp": 8080,
    "vLLM": 8000,
}
LOCAL_TIMEOUT_S = 2.0
"""How long a server may take that listens; where none does it is known at once."""

_MAX_LISTING_BYTES = 4 * 1024 * 1024
_NOT_FOR_CHAT = ("embed", "rerank", "whisper")


class LocalServer(Struct, frozen=True):
    """A running server with at least one chat model."""

    name: str
    base_url: str
    models: tuple[str, ...]


async def discover_local(
    ports: Mapping[str, int] = LOCAL_PORTS, timeout_s: float = LOCAL_TIMEOUT_S
) -> tuple[LocalServer, ...]:
    """Return the OpenAI-compatible servers on loopback, in the table's order."""
    import httpx  # 0.1 s, and needed only where nothing is configured

    async with httpx.AsyncClient(trust_env=False) as client:
        urls = [(name, f"http://127.0.0.1:{port}/v1") for name, port in ports.items()]
        listings = await all_of(_listed(client, f"{url}/models", {}, timeout_s) for _, url in urls)
    found = zip(urls, listings, strict=True)
    return tuple(LocalServer(name, url, models) for (name, url), models in found if models)


def is_loopback(url: str) -> bool:
    """True for a server on this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def list_models(
    base_url: str,
    api_key: SecretStr,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    query: str = "",
) -> tuple[str, ...]:
    """Return the ids of an endpoint's chat models; none if it lists none as OpenAI does.

    `headers` go along with the key, `query` with the URL.
    """
    import httpx  # as above

    async with httpx.AsyncClient(trust_env=not is_loopback(base_url)) as client:
        key = api_key.get_secret_value()
        bearer = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"{base_url}/models{query}"
        return await _listed(client, url, {**bearer, **(headers or {})}, timeout_s)


async def _listed(
    client: "AsyncClient", url: str, headers: Mapping[str, str], timeout_s: float
) -> tuple[str, ...]:
    import httpx  # as above

    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_s),
            client.stream("GET", url, headers=headers) as response,
        ):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_LISTING_BYTES:
                    return ()
    except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL):
        return ()
    return chat_models(bytes(body)) if response.is_success else ()


def chat_models(listing: bytes) -> tuple[str, ...]:
    """Return the chat models that a `/models` answer lists; none if it has another shape."""
    try:
        document: Any = json.loads(listing)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(document, dict):
        return ()
    told = cast("Mapping[str, Any]", document)
    entries: Any = told.get("data") or told.get("models")
    if not isinstance(entries, list):
        return ()
    names = [
        cast("Mapping[str, Any]", entry).get("id") or _slug(cast("Mapping[str, Any]", entry))
        for entry in cast("Sequence[Any]", entries)
        if isinstance(entry, dict)
    ]
    return tuple(
        name
        for name in names
        if isinstance(name, str)
        and name
        and not any(word in name.lower() for word in _NOT_FOR_CHAT)
    )


def _slug(entry: Mapping[str, Any]) -> object:
    """The id in a list as Codex has it, unless it is not for people to choose."""
    return None if entry.get("visibility") in {"hide", "hidden"} else entry.get("slug")


TIMEOUT_S = 30.0
MAX_LISTING_BYTES = 32 * 1024 * 1024

_MICRO = 1_000_000


async def fetch_models(url: str) -> list[ModelInfo]:
    """What a `/models` answer lists; ServiceUnavailable when there is none to be had."""
    import httpx  # 0.1 s, and needed only for this

    body = bytearray()
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(trust_env=not is_loopback(url), follow_redirects=True) as client,
            client.stream("GET", url) as response,
        ):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_LISTING_BYTES:
                    raise ServiceUnavailable(f"{url} lists more than a catalogue can have")
    except (TimeoutError, OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
        raise ServiceUnavailable(f"{url} cannot be read: {why}") from error
    if not response.is_success:
        raise ServiceUnavailable(f"{url} answers {response.status_code}")
    models = listed_models(bytes(body))
    if not models:
        raise ServiceUnavailable(f"{url} lists no models; the catalogue is left as it is")
    return models


def listed_models(listing: bytes) -> list[ModelInfo]:
    """The models of a listing; what has another shape is left out."""
    try:
        document: Any = json.loads(listing)
    except (ValueError, RecursionError):
        return []
    if not isinstance(document, dict):
        return []
    entries = cast("Mapping[str, Any]", document).get("data")
    if not isinstance(entries, list):
        return []
    found = (
        _model(cast("Mapping[str, Any]", entry))
        for entry in cast("list[Any]", entries)
        if isinstance(entry, dict)
    )
    return [info for info in found if info is not None]


def _model(entry: Mapping[str, Any]) -> ModelInfo | None:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        return None
    top, pricing = entry.get("top_provider"), entry.get("pricing")
    limits: Mapping[str, Any] = cast("Any", top) if isinstance(top, dict) else {}
    return ModelInfo(
        id=name,
        window=count(limits.get("context_length")) or count(entry.get("context_length")),
        max_output=count(limits.get("max_completion_tokens")),
        price=_price(cast("Mapping[str, Any]", pricing)) if isinstance(pricing, dict) else None,
        source=REFRESHED,
    )


def _price(told: Mapping[str, Any]) -> Price | None:
    """The price of a million tokens in micro-USD, told as USD a token; a router has none."""
    prompt, completion = _amount(told.get("prompt")), _amount(told.get("completion"))
    if prompt is None or completion is None:
        return None
    read, write = _amount(told.get("input_cache_read")), _amount(told.get("input_cache_write"))
    return Price(
        input=prompt,
        output=completion,
        cache_read=prompt if read is None else read,
        cache_write=prompt if write is None else write,
    )


def _amount(usd: object) -> int | None:
    if isinstance(usd, bool) or not isinstance(usd, str | int | float):
        return None
    try:
        amount = Decimal(str(usd))
    except InvalidOperation:
        return None
    return round(amount * PER_TOKENS * _MICRO) if amount.is_finite() and amount >= 0 else None
