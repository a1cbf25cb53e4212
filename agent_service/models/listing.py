"""Fetching a catalogue of models from where OpenRouter, or anything like it, lists its own."""

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from agent_service.models.catalog import REFRESHED, ModelInfo, count
from agent_service.models.discovery import is_loopback
from agent_service.models.pricing import PER_TOKENS, Price
from services.errors import ServiceUnavailable

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
