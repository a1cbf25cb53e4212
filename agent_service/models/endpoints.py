"""Chooses the model endpoint: the configured one, else a local server."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field
from pydantic import SecretStr

from agent_service.models.oauth import codex, nous
from agent_service.records.model_errors import InvalidEndpoint
from services.config.settings import provider_variables
from services.rpc.public_addresses import is_local_host
from services.runtime.logins import PROVIDERS

OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENROUTER_MODEL = "anthropic/claude-sonnet-5.5"
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-5.4"
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_MODEL = "claude-sonnet-5-5"

_UNSET = SecretStr("")
_UNNAMED = frozenset({"", "auto", "custom", "main"})
"""Values of `provider` that name none."""
_HOST = re.compile(r"[\w.:%-]+")
MESSAGES_VERSION = "2026-10-21"
_LOGINS = {"nous": "nous", "codex": "codex", "openai-codex": "codex"}
"""Login providers, by their names in settings."""
_NOTHING_SET = """\
No model is configured. Set OPENROUTER_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY in {env_file};
or HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL, for any other compatible endpoint;
or log in (hermes login --help), or start Ollama, LM Studio, llama.cpp or vLLM on its usual port."""


class Api(StrEnum):
    """The API of an endpoint."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "anthropic_messages"
    RESPONSES = "responses"
    TRANSCRIPTIONS = "transcriptions"


_KNOWN = {
    "openrouter": (OPENROUTER_URL, OPENROUTER_MODEL, Api.CHAT_COMPLETIONS),
    "openai": (OPENAI_URL, OPENAI_MODEL, Api.CHAT_COMPLETIONS),
    "anthropic": (ANTHROPIC_URL, ANTHROPIC_MODEL, Api.MESSAGES),
}
"""Base URL, default model and API of providers that need only a key, in order of preference."""


class Endpoint(Struct, frozen=True):
    """A base URL with its key and model.

    `provider` is openrouter, openai, anthropic, nous, codex, custom, or the name of a local server
    or configured provider; `source` says what chose the endpoint, `key_name` which setting has its
    key.
    """

    base_url: str
    api_key: SecretStr
    model: str
    provider: str
    source: str
    key_name: str
    api: Api = Api.CHAT_COMPLETIONS
    more_keys: tuple[SecretStr, ...] = ()
    """Keys to use if the first is refused."""
    login: str = ""
    """The provider whose login replaces the key, and may name another URL."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_local(self) -> bool:
        """Whether it is a server of one's own, whose models cost nothing unless a price is set."""
        host = urlsplit(self.base_url).hostname or ""
        return self.provider not in _KNOWN and not self.login and is_local_host(host)

    @property
    def shown_url(self) -> str:
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class ProviderPlace(Struct, frozen=True):
    """The URL and key of a named provider; an empty text is unset."""

    base_url: str
    """Empty if only the key is set."""
    api_key: SecretStr = _UNSET
    api: str = ""
    model: str = ""
    key_name: str = ""
    source: str = ""


class EndpointSettings(Struct, frozen=True):
    """The settings from flags, environment and `config.yaml`; an empty string counts as unset.

    `base_url`, `api_key` and `model` are HERMES_BASE_URL, HERMES_API_KEY and HERMES_MODEL, or the
    `model` group of `config.yaml`, like `provider` (openrouter, openai, anthropic, nous, codex, or
    one of `places`) and `api`, which by default is guessed from the URL.
    """

    base_url: str = ""
    api_key: SecretStr = _UNSET
    model: str = ""
    provider: str = ""
    keys: Mapping[str, Sequence[SecretStr]] = field(default_factory=dict[str, Sequence[SecretStr]])
    """Keys of openrouter, openai and anthropic, in order of preference."""
    api: str = ""
    codex_base_url: str = codex.MODELS_URL
    places: Mapping[str, ProviderPlace] = field(default_factory=dict[str, ProviderPlace])
    """Base URLs of providers, including changed ones of OpenRouter, OpenAI and Anthropic."""


def missing_endpoint(env_file: str) -> str:
    """Return the three lines that say what to set."""
    return _NOTHING_SET.format(env_file=env_file)


def configured_endpoint(settings: EndpointSettings) -> Endpoint | None:
    """Return the configured endpoint, if any; its model is empty if none is set."""
    login = _LOGINS.get(settings.provider, "")
    if login and _is_of(login, settings.base_url.strip()):
        return _at_login(login, settings)
    if settings.base_url.strip():
        return _custom(settings)
    provider = settings.provider.strip()
    if provider not in _KNOWN and provider not in _UNNAMED:
        return _named(provider, settings)
    found = [one for name in _KNOWN if (one := _known(name, settings)) is not None]
    found.sort(key=lambda endpoint: endpoint.provider != provider)
    return found[0] if found else None


def _custom(settings: EndpointSettings) -> Endpoint:
    base_url = _checked_url(settings.base_url)
    provider, default_model = _provider_at(urlsplit(base_url).hostname or "")
    key_name = "HERMES_API_KEY"
    keys = _keys([settings.api_key], key_name)
    if not keys and provider != "custom":
        key_name = f"{provider.upper()}_API_KEY"
        keys = _own_keys(settings, provider)
    named = settings.places.get(settings.provider)
    is_named = settings.provider not in (*_KNOWN, "custom")
    if not keys and provider == "custom" and named is not None and is_named:
        key_name = named.key_name
        keys = _keys([named.api_key], key_name)
    api, model = _api(settings.api, base_url, provider), settings.model.strip() or default_model
    return _endpoint(base_url, api, keys, (model, provider, "model.base_url", key_name))


def _endpoint(base_url: str, api: Api, keys: Sequence[SecretStr], named: Sequence[str]) -> Endpoint:
    first = keys[0] if keys else _UNSET
    return Endpoint(_base(base_url, api), first, *named, api=api, more_keys=tuple(keys[1:]))


def _provider_at(host: str) -> tuple[str, str]:
    for domain in ("openrouter.ai", "openai.com", "anthropic.com"):
        if _is_host(host, domain):
            provider = domain.partition(".")[0]
            return provider, _KNOWN[provider][1]
    return "custom", ""


def _api(told: str, base_url: str, provider: str) -> Api:
    if told:
        return Api(told)
    path = urlsplit(base_url).path
    if path.endswith("/responses"):
        return Api.RESPONSES
    native = provider == "anthropic" or path.endswith(("/anthropic", "/messages"))
    return Api.MESSAGES if native else Api.CHAT_COMPLETIONS


def _base(base_url: str, api: Api) -> str:
    if api is Api.MESSAGES:
        return _without_suffixes(base_url, "/messages", "/v1")
    return _without_suffixes(base_url, "/responses") if api is Api.RESPONSES else base_url


def _known(provider: str, settings: EndpointSettings) -> Endpoint | None:
    keys, place = _own_keys(settings, provider), settings.places.get(provider)
    if place is not None and place.base_url:
        own = _keys([place.api_key], place.key_name)
        keys = keys if not own or own[0] in keys else own
        # An OpenAI-compatible server may need no key.
        if keys or provider in ("openai", settings.provider):
            return _placed(provider, settings, place, keys)
    if not keys:
        return None
    base_url, usual, api = _KNOWN[provider]
    model = settings.model.strip()
    if provider == "anthropic":
        model = _native_name(model)
    elif provider == "openai":
        model = model.removeprefix("openai/")
        api = Api.RESPONSES if settings.api == Api.RESPONSES else api
    key_name = f"{provider.upper()}_API_KEY"
    return _endpoint(base_url, api, keys, (model or usual, provider, key_name, key_name))


def _named(provider: str, settings: EndpointSettings) -> Endpoint:
    place = settings.places.get(provider)
    if place is None or not place.base_url:
        url_name, key_name = provider_variables(provider)
        raise InvalidEndpoint(
            f"The provider {provider} is not known: set {url_name} and {key_name}, "
            f"or providers.{provider}.base_url."
        )
    return _placed(provider, settings, place, _keys([place.api_key], place.key_name))


def _placed(
    provider: str, settings: EndpointSettings, place: ProviderPlace, keys: tuple[SecretStr, ...]
) -> Endpoint:
    base_url = _checked_url(place.base_url, place.source)
    _, usual = _provider_at(urlsplit(base_url).hostname or "")
    api = _api(settings.api or place.api, base_url, provider)
    model = settings.model.strip() or place.model or usual
    return _endpoint(base_url, api, keys, (model, provider, place.source, place.key_name))


def _is_of(login: str, base_url: str) -> bool:
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
    bare = model.removeprefix("anthropic/")
    return bare if bare == model else bare.replace(".", "-")


def url_below(base_url: str, path: str) -> str:
    """The URL of a path below a base URL, before its query."""
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + path))


def key_header(base_url: str, usual: str) -> str:
    """The header of the key at an address: Azure has its own."""
    return "api-key" if _is_host(urlsplit(base_url).hostname or "", "azure.com") else usual


def _without_suffixes(base_url: str, *suffixes: str) -> str:
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    for suffix in suffixes:
        path = path.removesuffix(suffix)
    return urlunsplit(parts._replace(path=path, fragment=""))


def _checked_url(text: str, name: str = "HERMES_BASE_URL") -> str:
    url = text.strip()
    if not is_http_url(url):
        raise InvalidEndpoint(
            f"{name} is not a URL: it must look like https://host/v1 or http://127.0.0.1:8000/v1."
        )
    return _without_suffixes(url, "/chat/completions")


def is_http_url(url: str) -> bool:
    """Whether the text is an HTTP URL with a host."""
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
    return _keys(settings.keys.get(provider, ()), f"{provider.upper()}_API_KEY")


def _keys(given: Sequence[SecretStr], name: str) -> tuple[SecretStr, ...]:
    return tuple(dict.fromkeys(_checked_key(key, name) for key in given if _value(key)))


def _value(key: SecretStr) -> str:
    return key.get_secret_value().strip()


def _is_host(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)
