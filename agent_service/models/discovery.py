"""Asking servers which models they have, those on this machine's usual ports above all."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import SecretStr

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
