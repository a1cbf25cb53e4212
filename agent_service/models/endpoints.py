"""Which model endpoint to use: what is configured, else a local server."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from pydantic import SecretStr

from agent_service.models.discovery import (
    LOCAL_PORTS,
    LocalServer,
    discover_local,
    list_models,
)
from agent_service.models.errors import InvalidEndpoint, NoEndpoint
from agent_service.oauth import codex, nous
from services.logins import PROVIDERS

OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENROUTER_MODEL = "anthropic/claude-sonnet-5.5"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-5.4"
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_MODEL = "claude-sonnet-5-5"

_UNSET = SecretStr("")
_HOST = re.compile(r"[\w.:%-]+")
_LISTING_TIMEOUT_S = 3.0
_MESSAGES_VERSION = "2026-10-21"
_LOGINS = {"nous": "nous", "codex": "codex", "openai-codex": "codex"}
"""Providers at which one logs in, by the names that settings have for them."""
_CODEX_LISTING = "?client_version=1.0.0"
"""It lists no models to clients that do not say how old they are; the newest is what it lists."""
_NOTHING_SET = """\
No model is configured. Set OPENROUTER_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY in {env_file};
or HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL, for any other compatible endpoint;
or log in (hermes login --help), or start Ollama, LM Studio, llama.cpp or vLLM on its usual port."""


class Api(StrEnum):
    """What an endpoint speaks."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "anthropic_messages"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL with its key and model.

    `provider` is openrouter, openai, anthropic, nous, codex, custom or a local server's name;
    `source` says what chose the endpoint, `key_name` which setting holds its key.
    """

    base_url: str
    api_key: SecretStr
    model: str
    provider: str
    source: str
    key_name: str
    api: Api = Api.CHAT_COMPLETIONS
    more_keys: tuple[SecretStr, ...] = ()
    """Keys that are used where the first is refused."""
    login: str = ""
    """The provider whose login is used in place of a key, and which may name another URL."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """What every request says besides."""

    @property
    def shown_url(self) -> str:
        """The URL without credentials or query, fit for messages."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """What flags, environment and `config.yaml` say; an empty string counts as unset.

    `base_url`, `api_key` and `model` are HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL,
    or else the `model` group of `config.yaml`, as are `provider` (openrouter, openai, anthropic,
    nous or codex) and `api`, which is otherwise guessed from the URL.
    """

    base_url: str = ""
    api_key: SecretStr = _UNSET
    model: str = ""
    provider: str = ""
    openrouter_api_key: SecretStr = _UNSET
    openrouter_api_keys: tuple[SecretStr, ...] = ()
    openai_api_key: SecretStr = _UNSET
    openai_api_keys: tuple[SecretStr, ...] = ()
    anthropic_api_key: SecretStr = _UNSET
    anthropic_api_keys: tuple[SecretStr, ...] = ()
    api: str = ""
    codex_base_url: str = codex.MODELS_URL


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
    login = _LOGINS.get(settings.provider, "")
    if login and _is_of(login, settings.base_url.strip()):
        return _at_login(login, settings)
    if settings.base_url.strip():
        return _custom(settings)
    candidates = [_openrouter(settings), _openai(settings), _anthropic(settings)]
    found = [endpoint for endpoint in candidates if endpoint is not None]
    found.sort(key=lambda endpoint: endpoint.provider != settings.provider)
    return found[0] if found else None


def _custom(settings: EndpointSettings) -> Endpoint:
    base_url = _checked_url(settings.base_url)
    provider, default_model = _provider_at(urlsplit(base_url).hostname or "")
    key_name = "HERMES_API_KEY"
    keys = _keys(settings.api_key, (), key_name)
    if not keys and provider != "custom":
        key_name = f"{provider.upper()}_API_KEY"
        keys = _own_keys(settings, provider)
    api = _api(settings, base_url, provider)
    if api is Api.MESSAGES:
        # The SDK's base URL has no version, though people copy it with one.
        base_url = base_url.removesuffix("/messages").removesuffix("/v1")
    elif api is Api.RESPONSES:
        base_url = base_url.removesuffix("/responses")
    return Endpoint(
        base_url=base_url,
        api_key=keys[0] if keys else _UNSET,
        more_keys=keys[1:],
        model=settings.model.strip() or default_model,
        provider=provider,
        source="HERMES_BASE_URL",
        key_name=key_name,
        api=api,
    )


def _provider_at(host: str) -> tuple[str, str]:
    """Whose host it is, and which model is used there where none is set."""
    if _is_host(host, "openrouter.ai"):
        return "openrouter", OPENROUTER_MODEL
    if _is_host(host, "openai.com"):
        return "openai", OPENAI_MODEL
    if _is_host(host, "anthropic.com"):
        return "anthropic", ANTHROPIC_MODEL
    return "custom", ""


def _api(settings: EndpointSettings, base_url: str, provider: str) -> Api:
    """What is spoken there: as is said, else as the URL looks."""
    if settings.api:
        return Api(settings.api)
    if urlsplit(base_url).path.endswith("/responses"):
        return Api.RESPONSES
    native = provider == "anthropic" or base_url.endswith(("/anthropic", "/messages"))
    return Api.MESSAGES if native else Api.CHAT_COMPLETIONS


def _openrouter(settings: EndpointSettings) -> Endpoint | None:
    keys = _own_keys(settings, "openrouter")
    if not keys:
        return None
    return Endpoint(
        base_url=OPENROUTER_URL,
        api_key=keys[0],
        more_keys=keys[1:],
        model=settings.model.strip() or OPENROUTER_MODEL,
        provider="openrouter",
        source="OPENROUTER_API_KEY",
        key_name="OPENROUTER_API_KEY",
    )


def _openai(settings: EndpointSettings) -> Endpoint | None:
    keys = _own_keys(settings, "openai")
    if not keys:
        return None
    return Endpoint(
        base_url=OPENAI_URL,
        api_key=keys[0],
        more_keys=keys[1:],
        model=settings.model.strip().removeprefix("openai/") or OPENAI_MODEL,
        provider="openai",
        source="OPENAI_API_KEY",
        key_name="OPENAI_API_KEY",
        api=Api.RESPONSES if settings.api == Api.RESPONSES else Api.CHAT_COMPLETIONS,
    )


def _anthropic(settings: EndpointSettings) -> Endpoint | None:
    keys = _own_keys(settings, "anthropic")
    if not keys:
        return None
    return Endpoint(
        base_url=ANTHROPIC_URL,
        api_key=keys[0],
        more_keys=keys[1:],
        model=_native_name(settings.model.strip()) or ANTHROPIC_MODEL,
        provider="anthropic",
        source="ANTHROPIC_API_KEY",
        key_name="ANTHROPIC_API_KEY",
        api=Api.MESSAGES,
    )


def _is_of(login: str, base_url: str) -> bool:
    """Whether a base URL is none, or the provider's own, as older programs have written it."""
    host = urlsplit(base_url).hostname or ""
    own = "nousresearch.com" if login == "nous" else "chatgpt.com"
    return not base_url or _is_host(host, own)


def _at_login(login: str, settings: EndpointSettings) -> Endpoint:
    is_codex = login == "codex"
    return Endpoint(
        base_url=settings.codex_base_url if is_codex else nous.MODELS_URL,
        api_key=_UNSET,
        model=settings.model.strip(),
        provider=login,
        source=f"the login at {PROVIDERS[login]}",
        key_name=f"hermes login {login}",
        api=Api.RESPONSES if is_codex else Api.CHAT_COMPLETIONS,
        login=login,
    )


def _native_name(model: str) -> str:
    """Return a name of OpenRouter's as Anthropic itself writes it; others as they are."""
    bare = model.removeprefix("anthropic/")
    return bare if bare == model else bare.replace(".", "-")


async def with_listed_model(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint without a model with the first that it lists.

    Raises `InvalidEndpoint` where it lists none.
    """
    models = await listed_by(endpoint, _LISTING_TIMEOUT_S)
    if not models:
        checked = "" if endpoint.login else " HERMES_BASE_URL and"
        raise InvalidEndpoint(
            f"{endpoint.shown_url} lists no models: set HERMES_MODEL, and check{checked} "
            "that the server runs."
        )
    return replace(endpoint, model=models[0])


async def listed_by(endpoint: Endpoint, timeout_s: float) -> tuple[str, ...]:
    """Return the ids of an endpoint's chat models; none where it lists none."""
    native = endpoint.api is Api.MESSAGES
    url = f"{endpoint.base_url}/v1" if native else endpoint.base_url
    headers = {**endpoint.headers, **({"anthropic-version": _MESSAGES_VERSION} if native else {})}
    query = _CODEX_LISTING if endpoint.login == "codex" else ""
    return await list_models(url, endpoint.api_key, timeout_s, headers, query)


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


def _own_keys(settings: EndpointSettings, provider: str) -> tuple[SecretStr, ...]:
    """The keys that the settings have for openrouter, openai or anthropic."""
    one, more = {
        "openrouter": (settings.openrouter_api_key, settings.openrouter_api_keys),
        "openai": (settings.openai_api_key, settings.openai_api_keys),
        "anthropic": (settings.anthropic_api_key, settings.anthropic_api_keys),
    }[provider]
    return _keys(one, more, f"{provider.upper()}_API_KEY")


def _keys(one: SecretStr, more: Sequence[SecretStr], name: str) -> tuple[SecretStr, ...]:
    """All keys of a provider, each once, in their order."""
    checked = (_checked_key(key, name) for key in (one, *more) if _value(key))
    return tuple(dict.fromkeys(checked))


def _value(key: SecretStr) -> str:
    return key.get_secret_value().strip()


def _is_host(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
