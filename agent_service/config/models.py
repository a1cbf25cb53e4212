"""Settings of the model that answers: its name, its keys, its price and logins."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent_service.config.endpoints import checked_url
from agent_service.models.catalog import Override
from agent_service.models.endpoints import EndpointSettings, is_http_url
from agent_service.models.oauth import codex, nous
from agent_service.models.oauth.http import fit_for_tokens
from agent_service.models.oauth.issuer import Issuer
from agent_service.models.pricing import Price
from services.clock import Clock
from services.config.settings import ConfigModel, Env, Flag, Yaml, section

SHORTEST_KEY = 32


def _token_url(text: str) -> str:
    url = text.strip().rstrip("/")
    if not fit_for_tokens(url):
        # It is not repeated, as it may hold a password.
        raise ValueError("is not a URL that tokens may be sent to: it must begin with https://")
    return url


def _long(key: SecretStr) -> SecretStr:
    if 0 < len(key) < SHORTEST_KEY:
        raise ValueError(f"is too short: it has at least {SHORTEST_KEY} characters")
    return key


_Url = Annotated[str, AfterValidator(_token_url)]


@section("model")
class LoginConfig(ConfigModel):
    """Where one logs in, and where the models of a login are."""

    nous_portal_url: Annotated[_Url, Env("HERMES_NOUS_PORTAL_URL")] = nous.PORTAL_URL
    """Nous Portal, for `hermes login nous`; it says itself where its models are."""
    codex_auth_url: Annotated[_Url, Env("HERMES_CODEX_AUTH_URL")] = codex.AUTH_URL
    """Where `hermes login codex` logs in."""
    codex_base_url: Annotated[_Url, Env("HERMES_CODEX_BASE_URL")] = codex.MODELS_URL
    """Where the models of that login are, spoken to by the Responses API."""

    shared_key: Annotated[SecretStr, AfterValidator(_long), Env("HERMES_LOGIN_KEY")] = SecretStr("")
    """A secret of at least 32 characters, with which logins are sealed in the agent's PostgreSQL
    for replicas that share no disk; empty keeps them in `auth.json` of the home."""

    @property
    def is_shared(self) -> bool:
        """Whether all replicas share the logins."""
        return bool(self.shared_key.get_secret_value())

    def issuer(self, name: str, clock: Clock) -> Issuer:
        """The provider of that name."""
        if name == "nous":
            return nous.NousPortal(clock, self.nous_portal_url)
        return codex.OpenAICodex(clock, self.codex_auth_url)


def _app_url(text: str) -> str:
    given = text.strip()
    if given.lower() in ("", "none"):
        return ""
    if not is_http_url(given):
        raise ValueError("is not a URL such as https://hermes.example.org, or none")
    return given


def _catalog_url(text: str) -> str:
    if not is_http_url(text.strip()):
        raise ValueError("is not a URL such as https://openrouter.ai/api/v1/models")
    return text.strip()


@section("model")
class ModelConfig(ConfigModel):
    """Which model answers, and how it is reached."""

    name: Annotated[str, Yaml("model.default", "model"), Env("HERMES_MODEL"), Flag("model")] = ""
    """The model's id at the endpoint; empty is the provider's default."""
    provider: str = ""
    """`openrouter`, `openai` or `anthropic`, where keys of several are set, and empty is the first
    of them in this order; or `nous` or `codex`, after `hermes login`."""
    api: Literal["", "chat_completions", "anthropic_messages", "responses"] = ""
    """What `base_url` speaks: `chat_completions`, `anthropic_messages` or `responses`, which OpenAI
    itself speaks as well; empty goes by the URL."""
    cache_ttl: Literal["5m", "1h"] = "5m"
    """How long Anthropic keeps what is marked for its cache, asked directly or by OpenRouter; `1h`
    costs more to write."""
    reasoning_effort: Annotated[
        Literal["", "low", "medium", "high"], Yaml("agent.reasoning_effort")
    ] = ""
    """How hard models think that can; empty leaves it to the model."""
    providers_allowed: Annotated[
        tuple[str, ...], Yaml("model.providers_allowed", "provider_routing.only")
    ] = ()
    """The providers that OpenRouter may choose from, such as `anthropic`; empty is all."""
    base_url: Annotated[
        str, AfterValidator(checked_url), Env("HERMES_BASE_URL"), Flag("base_url")
    ] = ""
    """Base URL of any endpoint that speaks like OpenAI's or Anthropic's, such as
    http://127.0.0.1:8080/v1."""
    preload: Annotated[bool, Flag("preload_model")] = False
    """Whether the provider's library is loaded at the start and not for the first answer: that one
    comes a tenth of a second sooner, and an idle process takes some 30 MB more."""
    api_key: Annotated[SecretStr, Env("HERMES_API_KEY")] = SecretStr("")
    """Key for `base_url`; empty where the endpoint wants none."""
    openrouter_api_key: Annotated[SecretStr, Env("OPENROUTER_API_KEY")] = SecretStr("")
    """Key for OpenRouter."""
    openrouter_api_keys: Annotated[tuple[SecretStr, ...], Env("OPENROUTER_API_KEYS")] = ()
    """More keys for OpenRouter, used where the one before is refused or has used up what it may."""
    openai_api_key: Annotated[SecretStr, Env("OPENAI_API_KEY")] = SecretStr("")
    """Key for OpenAI."""
    openai_api_keys: Annotated[tuple[SecretStr, ...], Env("OPENAI_API_KEYS")] = ()
    """More keys for OpenAI, used where the one before is refused or has used up what it may."""
    anthropic_api_key: Annotated[SecretStr, Env("ANTHROPIC_API_KEY")] = SecretStr("")
    """Key for Anthropic."""
    anthropic_api_keys: Annotated[tuple[SecretStr, ...], Env("ANTHROPIC_API_KEYS")] = ()
    """More keys for Anthropic, used where the one before is refused or has used up what it may."""
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 16_384
    """Tokens that one answer may have, if its model can write so many."""
    max_retries: Annotated[int, Field(ge=0, le=10), Yaml("agent.api_max_retries")] = 3
    """How often a failed model call is tried again."""
    catalog_url: Annotated[str, AfterValidator(_catalog_url)] = (
        "https://openrouter.ai/api/v1/models"
    )
    """Where `hermes models --refresh` fetches the list of models, as OpenRouter writes it."""
    app_title: str = "Hermes"
    """Name of this deployment at OpenRouter (`X-OpenRouter-Title`); empty tells none."""
    app_url: Annotated[str, AfterValidator(_app_url)] = "http://hermes.localhost"
    """Address of this deployment at OpenRouter (`HTTP-Referer`), by which it counts what an app
    uses; the default means the machine itself, and `none` tells none."""
    login: LoginConfig

    @property
    def endpoint(self) -> EndpointSettings:
        """What the choice of the endpoint depends on."""
        return EndpointSettings(
            base_url=self.base_url,
            api_key=self.api_key,
            model=self.name,
            provider=self.provider,
            keys={
                "openrouter": (self.openrouter_api_key, *self.openrouter_api_keys),
                "openai": (self.openai_api_key, *self.openai_api_keys),
                "anthropic": (self.anthropic_api_key, *self.anthropic_api_keys),
            },
            api=self.api,
            codex_base_url=self.login.codex_base_url,
        )


class PriceSettings(ConfigModel):
    """What a million tokens of a model cost, in US dollars."""

    input: Annotated[float, Field(ge=0, le=100_000)]
    """Tokens sent."""
    output: Annotated[float, Field(ge=0, le=100_000)]
    """Tokens received, reasoning included."""
    cache_read: Annotated[float | None, Field(ge=0, le=100_000)] = None
    """Tokens sent that the provider read from its cache; unset is as `input`."""
    cache_write: Annotated[float | None, Field(ge=0, le=100_000)] = None
    """Tokens sent that the provider wrote to its cache; unset is as `input`."""

    @property
    def price(self) -> Price:
        """The price in micro-USD."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return Price(*(round(usd * 1e6) for usd in (self.input, self.output, read, write)))


class ModelSettings(ConfigModel):
    """What is to hold of a model, whatever the catalogue says."""

    window: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    """Tokens that a request may have, its answer included."""
    max_output: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    """Tokens that an answer may have."""
    price: PriceSettings | None = None
    """What it costs."""

    @property
    def override(self) -> Override:
        """The same as the catalogue takes it."""
        price = None if self.price is None else self.price.price
        return Override(self.window, self.max_output, price)
