"""Settings of other endpoints: named providers, fallbacks, and models of side tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from agent_service.models.endpoints import Api, EndpointSettings, ProviderPlace, is_http_url
from agent_service.models.fallback import Route
from services.config.fields import KeyNames
from services.config.settings import ConfigModel, Env, Yaml, is_secret_name, provider_variables

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


class EndpointModel(ConfigModel):
    """A model at an endpoint that settings name."""

    model: str
    """Its id at the endpoint."""
    provider: str = ""
    """Whose endpoint and key; with `base_url` only a name."""
    base_url: Annotated[str, AfterValidator(checked_url)] = ""
    """Base URL of any endpoint that speaks like OpenAI's or Anthropic's."""
    api: Literal["", "chat_completions", "anthropic_messages", "responses"] = ""
    """The API of `base_url`; empty detects it from the URL."""
    key_env: Annotated[str, AfterValidator(key_variable)] = ""
    """Name of the environment variable, or line of `.env`, that has the key for `base_url`."""


class FallbackEntry(EndpointModel):
    """A model that takes over where those before it fail."""

    model: Annotated[str, Field(min_length=1)]
    """Its id at the endpoint."""
    api_key: SecretStr = _UNSET
    """The key for `base_url` itself; better in `.env`, by `key_env`."""

    @property
    def name(self) -> str:
        """What it is called in notices, and which route it is in the journal."""
        return f"{self.provider}:{self.model}" if self.provider else self.model

    @property
    def route(self) -> Route:
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
    configured: Sequence[FallbackEntry], main: EndpointSettings, variable: Callable[[str], str]
) -> list[Fallback]:
    """The chain after the first model, each once; `variable` reads the environment or `.env`."""
    found = {one.name: one for one in reversed(configured)}
    return [
        Fallback(
            one.route,
            endpoint_settings(one, main, variable, one.api_key),
            one.key_env or ("fallback_providers" if one.base_url else ""),
            _missing(one.name, "fallback_providers"),
        )
        for one in reversed(found.values())
    ]


def endpoint_settings(
    one: EndpointModel,
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
        keys={name: keys for name, keys in main.keys.items() if name == one.provider},
        places={name: place for name, place in main.places.items() if name == one.provider},
    )


def _missing(name: str, setting: str) -> str:
    return (
        f"No endpoint for {name} is set: {setting} needs base_url or a provider whose key is set."
    )


TRANSCRIPTION = "transcription"
TASKS = (
    *("compression", "vision", TRANSCRIPTION, "approval", "curator", "title", "guard", "review"),
)
TaskName = Annotated[str, KeyNames(TASKS)]
"""What an auxiliary model does; a warning of its own says that `review` has no effect."""

SAME = frozenset({"", "auto", "main"})
"""What `provider` says where the task's model is at the endpoint of conversations."""


class AuxiliaryModel(EndpointModel):
    """The model of one task; without an id it is the conversation's."""

    model_config = ConfigDict(extra="ignore")  # homes have more to say of each than is read here

    model: str = ""

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if self.is_elsewhere and not self.model:
            raise ValueError("names another endpoint, and needs the model's id there, too")
        return self

    @property
    def is_elsewhere(self) -> bool:
        """Whether it has an endpoint of its own."""
        return bool(self.base_url) or self.provider not in SAME

    @property
    def is_chosen(self) -> bool:
        """Whether somebody has said which model it is; `provider: main` says the conversation's."""
        return bool(self.model) or self.provider == "main"


def route_of(configured: Mapping[str, AuxiliaryModel], task: str) -> Route:
    """How the model of a task is reached; without a model in it, it is the conversation's."""
    one = configured.get(task, AuxiliaryModel())
    return Route(f"auxiliary.{task}" if _is_apart(task, one) else "", one.model)


def _is_apart(task: str, one: AuxiliaryModel) -> bool:
    """Whether calls for a task differ from those of conversations: transcripts have another API."""
    return one.is_elsewhere or (task == TRANSCRIPTION and bool(one.model))


def auxiliaries(
    configured: Mapping[str, AuxiliaryModel], main: EndpointSettings, variable: Callable[[str], str]
) -> list[Fallback]:
    """The models that have endpoints of their own; `variable` reads the environment or `.env`."""
    return [
        Fallback(
            route_of(configured, task),
            endpoint_settings(one, main, variable) if one.is_elsewhere else main,
            one.key_env or (f"auxiliary.{task}.key_env" if one.base_url else ""),
            _missing(one.model, f"auxiliary.{task}"),
        )
        for task, one in configured.items()
        if _is_apart(task, one)
    ]


BaseUrl = Annotated[str, AfterValidator(checked_url)]

_URLS, _SPOKEN = ("api", "url"), ("api", "transport", "api_mode")
"""What other programs that share a home call the base URL, and what is spoken there."""


class NamedProvider(ConfigModel):
    """A provider that settings can name."""

    model_config = ConfigDict(extra="ignore")  # homes have more to say of each than is read here
    also_read = (*_URLS, *_SPOKEN, "default_model")

    base_url: BaseUrl = ""
    """Base URL of its endpoint; if unset, the variable `<NAME>_BASE_URL`."""
    api: str = ""
    """Its API; empty detects it from the URL."""
    model: str = ""
    """The model to use if none is named."""
    key_env: Annotated[str, AfterValidator(key_variable)] = ""
    """Name of the variable with its key; if unset, `<NAME>_API_KEY`."""
    api_key: SecretStr = SecretStr("")
    """The key itself; better in `.env`."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        told = {name: value or "" for name, value in cast("Mapping[str, Any]", given).items()}
        urls = (str(told[name]) for name in _URLS if name in told)
        spoken = (str(told[name]) for name in _SPOKEN if name in told)
        return {
            **told,
            "base_url": told.get("base_url") or next(filter(is_http_url, urls), ""),
            "api": next((one for one in spoken if one in list(Api)), ""),
            "model": told.get("model") or told.get("default_model", ""),
        }


class ProvidersConfig(ConfigModel):
    """Where providers are that are not where everybody finds them."""

    openrouter: Annotated[BaseUrl, Env("OPENROUTER_BASE_URL")] = ""
    """Base URL to use instead of OpenRouter's, such as a gateway's."""
    openai: Annotated[BaseUrl, Env("OPENAI_BASE_URL")] = ""
    """Base URL to use instead of OpenAI's; it may need no key."""
    anthropic: Annotated[BaseUrl, Env("ANTHROPIC_BASE_URL")] = ""
    """Base URL to use instead of Anthropic's."""
    named: Annotated[dict[str, NamedProvider], Yaml("providers")] = Field(
        default_factory=dict[str, NamedProvider]
    )
    """By name, providers for `model.provider`, `fallback_providers` and `auxiliary`: `base_url`,
    `key_env`, `api` and `model`. If unset, URL and key come from `<NAME>_BASE_URL` and
    `<NAME>_API_KEY`."""

    def places(
        self, names: Iterable[str], variable: Callable[[str], str]
    ) -> Mapping[str, ProviderPlace]:
        """Where the named providers are; `variable` reads the environment or `.env`."""
        known = {"openrouter": self.openrouter, "openai": self.openai, "anthropic": self.anthropic}
        return {
            name: _place(name, self.named.get(name, NamedProvider()), known.get(name, ""), variable)
            for name in {*known, *self.named, *names} - {""}
        }


def _place(
    name: str, one: NamedProvider, url: str, variable: Callable[[str], str]
) -> ProviderPlace:
    url_name, key_name = provider_variables(name)
    own = SecretStr(variable(one.key_env)) if one.key_env else one.api_key
    return ProviderPlace(
        base_url=one.base_url or url or variable(url_name),
        api_key=own if own.get_secret_value() else SecretStr(variable(key_name)),
        api=one.api,
        model=one.model,
        key_name=one.key_env or key_name,
        source=f"providers.{name}" if one.base_url else url_name,
    )
