"""Settings of the model that answers: its name, its keys, its price and logins."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent_service.config.endpoints import checked_url
from agent_service.models.catalog import Override
from agent_service.models.costs import Price
from agent_service.models.endpoints import EndpointSettings, is_http_url
from agent_service.models.oauth import codex, nous
from agent_service.models.oauth.http import fit_for_tokens
from agent_service.models.oauth.issuer import Issuer
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
    """Nous Portal, for `hermes login nous`. The portal says where its models are."""
    codex_auth_url: Annotated[_Url, Env("HERMES_CODEX_AUTH_URL")] = codex.AUTH_URL
    """Where `hermes login codex` logs in."""
    codex_base_url: Annotated[_Url, Env("HERMES_CODEX_BASE_URL")] = codex.MODELS_URL
    """Base URL of the models of that login, which speak the Responses API."""

    shared_key: Annotated[SecretStr, AfterValidator(_long), Env("HERMES_LOGIN_KEY")] = SecretStr("")
    """A secret of at least 32 characters that encrypts logins in the agent's PostgreSQL, for
    replicas that share no disk. Empty keeps logins in `auth.json` of the home."""

    @property
    def is_shared(self) -> bool:
        """Whether all replicas share the logins."""
        return bool(self.shared_key.get_secret_value())

    def issuer(self, name: str, clock: Clock) -> Issuer:
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
    """`openrouter`, `openai` or `anthropic`; empty is the first of them with a key. Or `nous` or
    `codex` after `hermes login`."""
    api: Literal["", "chat_completions", "anthropic_messages", "responses"] = ""
    """The API of `base_url`: `chat_completions`, `anthropic_messages` or `responses`, which OpenAI
    itself also has; empty detects it from the URL."""
    cache_ttl: Literal["5m", "1h"] = "5m"
    """How long Anthropic keeps cached parts of a prompt, directly or through OpenRouter; `1h` costs
    more to write."""
    reasoning_effort: Annotated[
        Literal["", "low", "medium", "high"], Yaml("agent.reasoning_effort")
    ] = ""
    """Reasoning effort of models that support it; empty is the model's default."""
    logprobs: bool = False
    """Whether to ask for the probability of each token and keep it, for data to train models with;
    only with the API `chat_completions`."""
    providers_allowed: Annotated[
        tuple[str, ...], Yaml("model.providers_allowed", "provider_routing.only")
    ] = ()
    """Providers that OpenRouter may choose from, such as `anthropic`; empty is all."""
    base_url: Annotated[
        str, AfterValidator(checked_url), Env("HERMES_BASE_URL"), Flag("base_url")
    ] = ""
    """Base URL of any endpoint with OpenAI's or Anthropic's API: http://127.0.0.1:8080/v1."""
    api_key: Annotated[SecretStr, Env("HERMES_API_KEY")] = SecretStr("")
    """Key for `base_url`; empty if the endpoint needs none."""
    openrouter_api_key: Annotated[SecretStr, Env("OPENROUTER_API_KEY")] = SecretStr("")
    """Key for OpenRouter."""
    openrouter_api_keys: Annotated[tuple[SecretStr, ...], Env("OPENROUTER_API_KEYS")] = ()
    """More keys for OpenRouter, used if the one before is rejected or has used up its quota."""
    openai_api_key: Annotated[SecretStr, Env("OPENAI_API_KEY")] = SecretStr("")
    """Key for OpenAI."""
    openai_api_keys: Annotated[tuple[SecretStr, ...], Env("OPENAI_API_KEYS")] = ()
    """More keys for OpenAI, used if the one before is rejected or has used up its quota."""
    anthropic_api_key: Annotated[SecretStr, Env("ANTHROPIC_API_KEY")] = SecretStr("")
    """Key for Anthropic."""
    anthropic_api_keys: Annotated[tuple[SecretStr, ...], Env("ANTHROPIC_API_KEYS")] = ()
    """More keys for Anthropic, used if the one before is rejected or has used up its quota."""
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 16_384
    """Maximum number of tokens in one answer, if its model can write so many."""
    max_retries: Annotated[int, Field(ge=0, le=10), Yaml("agent.api_max_retries")] = 3
    """How often a failed model call is tried again."""
    catalog_url: Annotated[str, AfterValidator(_catalog_url)] = (
        "https://openrouter.ai/api/v1/models"
    )
    """Where `hermes models --refresh` fetches the list of models, in OpenRouter's format."""
    app_title: str = "Hermes"
    """Name of this deployment at OpenRouter (`X-OpenRouter-Title`); empty sends none."""
    app_url: Annotated[str, AfterValidator(_app_url)] = "http://hermes.localhost"
    """Address of this deployment at OpenRouter (`HTTP-Referer`), which counts usage by it; the
    default stands for the machine itself, and `none` sends none."""
    login: LoginConfig

    @property
    def endpoint(self) -> EndpointSettings:
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
    """Tokens sent that the provider read from its cache; unset is the price of `input`."""
    cache_write: Annotated[float | None, Field(ge=0, le=100_000)] = None
    """Tokens sent that the provider wrote to its cache; unset is the price of `input`."""

    @property
    def price(self) -> Price:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return Price(*(round(usd * 1e6) for usd in (self.input, self.output, read, write)))


class ModelSettings(ConfigModel):
    """What is to hold of a model, whatever the catalogue says."""

    window: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    """Maximum number of tokens in a request, including its answer."""
    max_output: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    """Maximum number of tokens in an answer."""
    price: PriceSettings | None = None
    """What it costs."""
    vision: bool | None = None
    """Whether it can look at pictures; those of messages are shown to it, or described for it."""

    @property
    def override(self) -> Override:
        price = None if self.price is None else self.price.price
        return Override(self.window, self.max_output, price, self.vision)
