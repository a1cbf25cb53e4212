"""Lists the models of local servers, of endpoints and of OpenRouter."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Struct
from pydantic import SecretStr

from agent_service.models.catalog import REFRESHED, ModelInfo
from agent_service.models.costs import PER_TOKENS, Price
from agent_service.models.proxies import open_session, reason_of, without_user
from services.errors import ServiceUnavailable
from services.lifecycle import all_of
from services.validation import decode, lenient

if TYPE_CHECKING:
    from aiohttp import ClientSession

LOCAL_PORTS: Mapping[str, int] = {
    "Ollama": 11434,
    "LM Studio": 1234,
    "llama.cpp": 8080,
    "vLLM": 8000,
}
LOCAL_TIMEOUT_S = 2.0
"""How long a listening server may take; a closed port is known at once."""

TIMEOUT_S = 30.0
MAX_LISTING_BYTES = 32 * 1024 * 1024

T = TypeVar("T", bound=Struct)

LOADING_TIMEOUT_S = 60.0

_NOT_FOR_CHAT = ("embed", "rerank", "whisper")
_MICRO = 1_000_000


class LocalServer(Struct, frozen=True):
    """A running server with at least one chat model."""

    name: str
    base_url: str
    models: tuple[str, ...]


class ServedModel(Struct, frozen=True):
    """What a local server says of a model."""

    window: int = 0
    """Tokens of context; 0 if it does not say."""
    tells_progress: bool = False
    """Whether it is llama.cpp, which tells how much of a prompt it has read."""


class ListingUnreachable(ServiceUnavailable):
    """A server gives no answer that can be read."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} cannot be read: {reason}")
        self.reason = reason


class ListingRefused(ServiceUnavailable):
    """A server answers with an error instead of its models."""

    def __init__(self, url: str, status: int, body: bytes) -> None:
        super().__init__(f"{url} answers {status}")
        self.status = status
        self.body = body


async def discover_local(
    ports: Mapping[str, int] = LOCAL_PORTS, timeout_s: float = LOCAL_TIMEOUT_S
) -> tuple[LocalServer, ...]:
    """The OpenAI-compatible servers on loopback, in the table's order."""
    urls = [(name, f"http://127.0.0.1:{port}/v1") for name, port in ports.items()]
    async with await open_session("http://127.0.0.1") as session:
        listings = await all_of(_listed(session, f"{url}/models", timeout_s) for _, url in urls)
    found = zip(urls, listings, strict=True)
    return tuple(LocalServer(name, url, models) for (name, url), models in found if models)


async def fetch_models(url: str) -> list[ModelInfo]:
    """The models of a `/models` response; ServiceUnavailable if there is none."""
    async with await open_session(url) as session:
        models = listed_models(await fetch_listing(session, url, {}, TIMEOUT_S, follow=True))
    if not models:
        raise ServiceUnavailable(f"{url} lists no models; the catalogue is left as it is")
    return models


async def served_model(base_url: str, api_key: SecretStr, model: str) -> ServedModel:
    """Ask a local server about a model.

    llama.cpp, LM Studio, vLLM and Ollama each have a place of their own for its context. Ollama
    decides when it loads a model, so it is made to load it.
    """
    key = api_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    base_url = base_url.partition("?")[0]
    root = base_url.removesuffix("/v1")
    try:
        opened = await open_session(base_url)
    except ServiceUnavailable:
        return ServedModel()  # the call itself says why
    async with opened as session:

        async def told(path: str) -> bytes:
            try:
                return await fetch_listing(session, path, headers, LOCAL_TIMEOUT_S)
            except ServiceUnavailable:
                return b""

        paths = (f"{root}/props", f"{root}/api/v0/models", f"{root}/api/ps", f"{base_url}/models")
        props, *listings = await all_of(told(path) for path in paths)
        if b'"models"' in listings[1] and not _served(listings[1], model):
            await _load(session, f"{root}/api/generate", headers, model)
            listings[1] = await told(f"{root}/api/ps")
    by_llama_cpp = _llama_cpp(props)
    found = (by_llama_cpp, *(_served(listing, model) for listing in listings))
    return ServedModel(next(filter(None, found), 0), tells_progress=by_llama_cpp > 0)


async def _load(session: "ClientSession", url: str, headers: Mapping[str, str], model: str) -> None:
    import aiohttp

    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LOADING_TIMEOUT_S):
            async with session.post(url, json={"model": model}, headers=headers) as answer:
                await answer.read()


class _Served(Struct):
    """The context of a model, by its names in the listings of local servers."""

    id: str = ""
    name: str = ""
    n_ctx: int = 0
    loaded_context_length: int = 0
    max_model_len: int = 0
    context_length: int = 0

    @property
    def tokens(self) -> int:
        sizes = (self.n_ctx, self.loaded_context_length, self.max_model_len, self.context_length)
        return next((size for size in sizes if size > 0), 0)


def _served(listing: bytes, model: str) -> int:
    entries = _entries(listing, _Served)
    return next((one.tokens for one in entries if model in (one.id, one.name)), 0)


def _llama_cpp(props: bytes) -> int:
    with suppress(msgspec.MsgspecError, RecursionError):
        told = decode(props, dict[str, Any]).get("default_generation_settings")
        return lenient(told, _Served).tokens
    return 0


async def _listed(session: "ClientSession", url: str, timeout_s: float) -> tuple[str, ...]:
    try:
        return chat_models(await fetch_listing(session, url, {}, timeout_s))
    except ServiceUnavailable:
        return ()


async def fetch_listing(
    session: "ClientSession",
    url: str,
    headers: Mapping[str, str],
    timeout_s: float,
    *,
    follow: bool = False,
) -> bytes:
    """The body of a listing; raises ListingRefused, or ListingUnreachable without an answer."""
    import aiohttp

    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.get(without_user(url), headers=headers, allow_redirects=follow) as response,
        ):
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_LISTING_BYTES:
                    raise ListingUnreachable(url, "it lists more than a catalogue can have")
    except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
        raise ListingUnreachable(url, reason_of(error)) from None
    if not 200 <= response.status < 300:
        raise ListingRefused(url, response.status, bytes(body))
    return bytes(body)


class _Named(Struct):
    id: str = ""
    slug: str = ""
    """The id in Codex's format; empty if users may not choose the model."""
    visibility: str = ""

    @property
    def name(self) -> str:
        return self.id or ("" if self.visibility in {"hide", "hidden"} else self.slug)


class _Limits(Struct):
    context_length: int | None = None
    max_completion_tokens: int | None = None


class _Pricing(Struct):
    """USD per token; routers have no price, and say -1."""

    prompt: Decimal | None = None
    completion: Decimal | None = None
    input_cache_read: Decimal | None = None
    input_cache_write: Decimal | None = None


class _Offered(Struct):
    id: str = ""
    context_length: int | None = None
    max_model_len: int | None = None
    top_provider: _Limits | None = None
    pricing: Any = None
    architecture: Any = None


class _Architecture(Struct):
    input_modalities: Sequence[str] | None = None


def chat_models(listing: bytes) -> tuple[str, ...]:
    """The chat models of a `/models` response; empty if it has another format."""
    names = (entry.name for entry in _entries(listing, _Named))
    return tuple(
        name for name in names if name and not any(word in name.lower() for word in _NOT_FOR_CHAT)
    )


def listed_models(listing: bytes, source: str = REFRESHED) -> list[ModelInfo]:
    """The models of a listing with limits and prices; skips entries of another format."""
    found: list[ModelInfo] = []
    for entry in _entries(listing, _Offered):
        limits = entry.top_provider or _Limits()
        window = limits.context_length or entry.context_length or entry.max_model_len or 0
        price = _price(lenient(entry.pricing, _Pricing))
        most = limits.max_completion_tokens or 0
        inputs = lenient(entry.architecture, _Architecture).input_modalities
        sees = None if inputs is None else "image" in inputs
        found.append(ModelInfo(entry.id, window, most, price, source, sees))
    return [info for info in found if info.id]


def _entries(listing: bytes, kind: type[T]) -> Iterable[T]:
    with suppress(msgspec.MsgspecError, RecursionError):
        told = decode(listing, dict[str, Any])
        entries = told.get("data") or told.get("models")
        for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield lenient(cast("object", entry), kind)


def _price(told: _Pricing) -> Price | None:
    prompt, completion = told.prompt, told.completion
    if prompt is None or completion is None:
        return None
    read, write = told.input_cache_read, told.input_cache_write
    each = (
        prompt,
        completion,
        prompt if read is None else read,
        prompt if write is None else write,
    )
    if not all(usd.is_finite() and usd >= 0 for usd in each):
        return None
    return Price(*(round(usd * PER_TOKENS * _MICRO) for usd in each))
