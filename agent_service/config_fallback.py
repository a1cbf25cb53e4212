"""The agent's settings of the models that take over where the configured one fails."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, Field, SecretStr

from agent_service.models.endpoints import EndpointSettings, is_http_url
from agent_service.models.fallback import Route
from services.config import ConfigModel, is_secret_name

_UNSET = SecretStr("")


def checked_url(text: str) -> str:
    """Check a base URL."""
    if text.strip() and not is_http_url(text.strip()):
        # It is not repeated, as it may hold a password.
        raise ValueError("is not a URL such as https://host/v1 or http://127.0.0.1:8000/v1")
    return text.strip()


def key_variable(name: str) -> str:
    """Check the name of a variable that has a key."""
    if name and not is_secret_name(name):
        # By its name its value is known as a secret, and kept out of logs and answers.
        raise ValueError("is not the name of a variable with a key: it must end in _KEY or _TOKEN")
    return name


class Elsewhere(Protocol):
    """A model at an endpoint that settings name."""

    @property
    def model(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def api(self) -> str: ...

    @property
    def key_env(self) -> str: ...


class FallbackModel(ConfigModel):
    """A model that takes over where those before it fail."""

    model: Annotated[str, Field(min_length=1)]
    """Its id at the endpoint."""
    provider: str = ""
    """Whose endpoint and key; with `base_url` only a name."""
    base_url: Annotated[str, AfterValidator(checked_url)] = ""
    """Base URL of any endpoint that speaks like OpenAI's or Anthropic's."""
    api: Literal["", "chat_completions", "anthropic_messages", "responses"] = ""
    """What `base_url` speaks; empty goes by the URL."""
    key_env: Annotated[str, AfterValidator(key_variable)] = ""
    """Name of the environment variable, or line of `.env`, that has the key for `base_url`."""
    api_key: SecretStr = _UNSET
    """The key for `base_url` itself; better in `.env`, by `key_env`."""

    @property
    def name(self) -> str:
        """What it is called in notices, and which route it is in the journal."""
        return f"{self.provider}:{self.model}" if self.provider else self.model

    @property
    def route(self) -> Route:
        """Its place in the chain."""
        return Route(self.name, self.model)


class Fallback(Struct, frozen=True):
    """A model of the chain, and where it is found."""

    route: Route
    endpoint: EndpointSettings
    key_name: str
    """Which setting holds its key; empty is its provider's own."""
    missing: str
    """What to say where there is no such endpoint."""


def fallbacks(
    configured: Sequence[FallbackModel], main: EndpointSettings, variable: Callable[[str], str]
) -> list[Fallback]:
    """The chain after the first model, each once; `variable` reads the environment or `.env`."""
    found = {one.name: one for one in reversed(configured)}
    return [
        Fallback(
            one.route,
            endpoint_settings(one, main, variable, one.api_key),
            _key_name(one),
            _missing(one),
        )
        for one in reversed(found.values())
    ]


def endpoint_settings(
    one: Elsewhere,
    main: EndpointSettings,
    variable: Callable[[str], str],
    api_key: SecretStr = _UNSET,
) -> EndpointSettings:
    """The settings of the endpoint that is named, with the keys that belong to it alone."""
    named = SecretStr(variable(one.key_env)) if one.key_env else api_key
    settings = replace(
        main,
        base_url=one.base_url,
        api_key=named,
        model=one.model,
        provider=one.provider,
        api=one.api,
    )
    if one.base_url:
        return settings
    # Only the one that is named: another provider does not know the model by that name.
    return replace(
        settings,
        openrouter_api_key=main.openrouter_api_key if one.provider == "openrouter" else _UNSET,
        openrouter_api_keys=main.openrouter_api_keys if one.provider == "openrouter" else (),
        openai_api_key=main.openai_api_key if one.provider == "openai" else _UNSET,
        openai_api_keys=main.openai_api_keys if one.provider == "openai" else (),
        anthropic_api_key=main.anthropic_api_key if one.provider == "anthropic" else _UNSET,
        anthropic_api_keys=main.anthropic_api_keys if one.provider == "anthropic" else (),
        places={name: place for name, place in main.places.items() if name == one.provider},
    )


def _key_name(one: FallbackModel) -> str:
    return one.key_env or ("fallback_providers" if one.base_url else "")


def _missing(one: FallbackModel) -> str:
    return (
        f"No endpoint for {one.name} is set: fallback_providers needs a provider whose key is set, "
        "or base_url."
    )
