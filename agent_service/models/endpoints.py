"""Which model endpoint to use: what is configured, else a local server."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent_service.models.discovery import (
    LOCAL_PORTS,
    LocalServer,
    discover_local,
    list_models,
)
from agent_service.models.errors import InvalidEndpoint, NoEndpoint

OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENROUTER_MODEL = "anthropic/claude-sonnet-4.5"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-5.4"

_UNSET = SecretStr("")
_HOST = re.compile(r"[\w.:%-]+")
_LISTING_TIMEOUT_S = 3.0
_NOTHING_SET = """\
No model is configured. Set OPENROUTER_API_KEY or OPENAI_API_KEY in the environment or {env_file};
or HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL, for any other OpenAI-compatible endpoint;
or start a local server: Ollama, LM Studio, llama.cpp or vLLM, on its usual port."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL with its key and model.

    `provider` is openrouter, openai, custom or a local server's name; `source` says what
    chose the endpoint, `key_name` which setting holds its key.
    """

    base_url: str
    api_key: SecretStr
    model: str
    provider: str
    source: str
    key_name: str

    @property
    def shown_url(self) -> str:
        """The URL without credentials or query, fit for messages."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """What flags, environment and `config.yaml` say; an empty string counts as unset.

    `base_url`, `api_key` and `model` are HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL,
    or else the `model` group of `config.yaml`, as is `provider` (openrouter or openai).
    """

    base_url: str = ""
    api_key: SecretStr = _UNSET
    model: str = ""
    provider: str = ""
    openrouter_api_key: SecretStr = _UNSET
    openai_api_key: SecretStr = _UNSET


async def find_endpoint(
    settings: EndpointSettings,
    env_file: str = "~/.hermes/.env",
    local_ports: Mapping[str, int] = LOCAL_PORTS,
) -> Endpoint:
    """Return the configured endpoint, else the first local server's.

    Raises `NoEndpoint`, whose three lines say what to set, or `InvalidEndpoint`.
    """
    configured = configured_endpoint(settings)
    if configured is not None:
        return configured if configured.model else await with_listed_model(configured)
    servers = await discover_local(local_ports)
    if not servers:
        raise NoEndpoint(missing_endpoint(env_file))
    return local_endpoint(servers[0], settings.model)


def missing_endpoint(env_file: str) -> str:
    """Return the three lines that say what to set."""
    return _NOTHING_SET.format(env_file=env_file)


def local_endpoint(server: LocalServer, wanted_model: str = "") -> Endpoint:
    """Return a discovered server as an endpoint, for the wanted model if it has it."""
    return Endpoint(
        base_url=server.base_url,
        api_key=SecretStr(""),
        model=wanted_model if wanted_model in server.models else server.models[0],
        provider=server.name,
        source=f"{server.name} on {urlsplit(server.base_url).netloc}",
        key_name="HERMES_API_KEY",
    )


def configured_endpoint(settings: EndpointSettings) -> Endpoint | None:
    """Return the endpoint that the settings name, or None; its model is empty if none is set."""
    if settings.base_url.strip():
        return _custom(settings)
    candidates = [_openrouter(settings), _openai(settings)]
    if settings.provider == "openai":
        candidates.reverse()
    return next((endpoint for endpoint in candidates if endpoint is not None), None)


def _custom(settings: EndpointSettings) -> Endpoint:
    base_url = _checked_url(settings.base_url)
    host = urlsplit(base_url).hostname or ""
    provider, default_model = "custom", ""
    key, key_name = settings.api_key, "HERMES_API_KEY"
    if _is_host(host, "openrouter.ai"):
        provider, default_model = "openrouter", OPENROUTER_MODEL
        if not _value(key):
            key, key_name = settings.openrouter_api_key, "OPENROUTER_API_KEY"
    elif _is_host(host, "openai.com"):
        provider, default_model = "openai", OPENAI_MODEL
        if not _value(key):
            key, key_name = settings.openai_api_key, "OPENAI_API_KEY"
    return Endpoint(
        base_url=base_url,
        api_key=_checked_key(key, key_name),
        model=settings.model.strip() or default_model,
        provider=provider,
        source="HERMES_BASE_URL",
        key_name=key_name,
    )


def _openrouter(settings: EndpointSettings) -> Endpoint | None:
    if not _value(settings.openrouter_api_key):
        return None
    return Endpoint(
        base_url=OPENROUTER_URL,
        api_key=_checked_key(settings.openrouter_api_key, "OPENROUTER_API_KEY"),
        model=settings.model.strip() or OPENROUTER_MODEL,
        provider="openrouter",
        source="OPENROUTER_API_KEY",
        key_name="OPENROUTER_API_KEY",
    )


def _openai(settings: EndpointSettings) -> Endpoint | None:
    if not _value(settings.openai_api_key):
        return None
    return Endpoint(
        base_url=OPENAI_URL,
        api_key=_checked_key(settings.openai_api_key, "OPENAI_API_KEY"),
        model=settings.model.strip().removeprefix("openai/") or OPENAI_MODEL,
        provider="openai",
        source="OPENAI_API_KEY",
        key_name="OPENAI_API_KEY",
    )


async def with_listed_model(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint without a model with the first that it lists.

    Raises `InvalidEndpoint` where it lists none.
    """
    models = await list_models(endpoint.base_url, endpoint.api_key, timeout_s=_LISTING_TIMEOUT_S)
    if not models:
        raise InvalidEndpoint(
            f"{endpoint.shown_url} lists no models: set HERMES_MODEL, and check HERMES_BASE_URL "
            "and that the server runs."
        )
    return replace(endpoint, model=models[0])


def _checked_url(text: str) -> str:
    url = text.strip().rstrip("/").removesuffix("/chat/completions")
    if not is_http_url(url):
        raise InvalidEndpoint(
            "HERMES_BASE_URL is not a URL: it must look like https://host/v1 or http://127.0.0.1:8000/v1."
        )
    return url


def is_http_url(url: str) -> bool:
    """Whether the text is the URL of a host that speaks HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and port != 0 and bool(_HOST.fullmatch(host))


def _checked_key(key: SecretStr, name: str) -> SecretStr:
    value = _value(key)
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise InvalidEndpoint(f"{name} has characters that no key has: copy the key again.")
    return SecretStr(value)


def _value(key: SecretStr) -> str:
    return key.get_secret_value().strip()


def _is_host(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
