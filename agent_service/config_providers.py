"""The agent's settings of providers that have a base URL of their own, each by its name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from agent_service.config_fallback import checked_url, key_variable
from agent_service.models.endpoints import Api, Place, is_http_url
from services.config import ConfigModel, Env, Yaml, provider_variables

BaseUrl = Annotated[str, AfterValidator(checked_url)]

_URLS, _SPOKEN = ("api", "url"), ("api", "transport", "api_mode")
"""What other programs that share a home call the base URL, and what is spoken there."""


class NamedProvider(ConfigModel):
    """A provider that settings can name."""

    model_config = ConfigDict(extra="ignore")  # homes have more to say of each than is read here

    base_url: BaseUrl = ""
    """Base URL of its endpoint; unset is `<NAME>_BASE_URL`."""
    api: str = ""
    """What it speaks; empty goes by the URL."""
    model: str = ""
    """The model that is asked where none is named."""
    key_env: Annotated[str, AfterValidator(key_variable)] = ""
    """Name of the variable with its key; unset is `<NAME>_API_KEY`."""
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
    """Base URL of what stands for OpenRouter, such as a gateway."""
    openai: Annotated[BaseUrl, Env("OPENAI_BASE_URL")] = ""
    """Base URL of what stands for OpenAI; it may do without a key."""
    anthropic: Annotated[BaseUrl, Env("ANTHROPIC_BASE_URL")] = ""
    """Base URL of what stands for Anthropic."""
    named: Annotated[dict[str, NamedProvider], Yaml("providers")] = Field(
        default_factory=dict[str, NamedProvider]
    )
    """By name, providers for `model.provider`, `fallback_providers` and `auxiliary`: `base_url`,
    `key_env`, `api` and `model`; what is unset is `<NAME>_BASE_URL` and `<NAME>_API_KEY`."""

    def places(self, names: Iterable[str], variable: Callable[[str], str]) -> Mapping[str, Place]:
        """Where the named providers are; `variable` reads the environment or `.env`."""
        known = {
            "openrouter": self.openrouter,
            "openai": self.openai,
            "anthropic": self.anthropic,
        }
        return {
            name: _place(name, self.named.get(name, NamedProvider()), known.get(name, ""), variable)
            for name in {*known, *self.named, *names} - {""}
        }


def _place(name: str, one: NamedProvider, url: str, variable: Callable[[str], str]) -> Place:
    url_name, key_name = provider_variables(name)
    own = SecretStr(variable(one.key_env)) if one.key_env else one.api_key
    return Place(
        base_url=one.base_url or url or variable(url_name),
        api_key=own if own.get_secret_value() else SecretStr(variable(key_name)),
        api=one.api,
        model=one.model,
        key_name=one.key_env or key_name,
        source=f"providers.{name}" if one.base_url else url_name,
    )
