"""The agent's settings."""

from collections.abc import Sequence
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from agent_service import budget
from agent_service.config_approvals import ApprovalsConfig
from agent_service.config_auxiliary import AuxiliaryModel
from agent_service.config_fallback import FallbackModel
from agent_service.config_jobs import JobsConfig
from agent_service.config_learning import LearningConfig
from agent_service.config_login import LoginConfig
from agent_service.config_overlays import OverlayConfig
from agent_service.config_providers import ProvidersConfig
from agent_service.config_skills import SkillsConfig
from agent_service.config_terminal import TerminalConfig
from agent_service.config_tools import ToolsConfig
from agent_service.config_web import FetchConfig, MixtureConfig, SearchConfig
from agent_service.context.policy import Policy
from agent_service.models.catalog import Override
from agent_service.models.endpoints import EndpointSettings, is_http_url
from agent_service.models.fallback import Route
from agent_service.models.pricing import Price
from services.config import ConfigModel, Env, Flag, Yaml
from services.config_fields import TypeName


def _base_url(text: str) -> str:
    if text.strip() and not is_http_url(text.strip()):
        # It is not repeated, as it may hold a password.
        raise ValueError("is not a URL such as https://host/v1 or http://127.0.0.1:8000/v1")
    return text


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


class ModelConfig(ConfigModel):
    """Which model answers, and how it is reached."""

    name: Annotated[str, Yaml("model.default", "model"), Env("HERMES_MODEL"), Flag("model")] = ""
    """The model's id at the endpoint; empty is the provider's default."""
    provider: Annotated[str, Yaml("model.provider")] = ""
    """`openrouter`, `openai` or `anthropic`, where keys of several are set, and empty is the first
    of them in this order; or `nous` or `codex`, after `hermes login`."""
    api: Annotated[
        Literal["", "chat_completions", "anthropic_messages", "responses"], Yaml("model.api")
    ] = ""
    """What `base_url` speaks: `chat_completions`, `anthropic_messages` or `responses`, which OpenAI
    itself speaks as well; empty goes by the URL."""
    cache_ttl: Annotated[Literal["5m", "1h"], Yaml("model.cache_ttl")] = "5m"
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
        str,
        AfterValidator(_base_url),
        Yaml("model.base_url"),
        Env("HERMES_BASE_URL"),
        Flag("base_url"),
    ] = ""
    """Base URL of any endpoint that speaks like OpenAI's or Anthropic's, such as
    http://127.0.0.1:8080/v1."""
    preload: Annotated[bool, Yaml("model.preload"), Flag("preload_model")] = False
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
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000), Yaml("model.max_tokens")] = 16_384
    """Tokens that one answer may have, if its model can write so many."""
    max_retries: Annotated[int, Field(ge=0, le=10), Yaml("agent.api_max_retries")] = 3
    """How often a failed model call is tried again."""
    catalog_url: Annotated[str, AfterValidator(_catalog_url), Yaml("model.catalog_url")] = (
        "https://openrouter.ai/api/v1/models"
    )
    """Where `hermes models --refresh` fetches the list of models, as OpenRouter writes it."""
    app_title: Annotated[str, Yaml("model.app_title")] = "Hermes"
    """Name of this deployment at OpenRouter (`X-OpenRouter-Title`); empty tells none."""
    app_url: Annotated[str, AfterValidator(_app_url), Yaml("model.app_url")] = (
        "http://hermes.localhost"
    )
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
            openrouter_api_key=self.openrouter_api_key,
            openrouter_api_keys=self.openrouter_api_keys,
            openai_api_key=self.openai_api_key,
            openai_api_keys=self.openai_api_keys,
            anthropic_api_key=self.anthropic_api_key,
            anthropic_api_keys=self.anthropic_api_keys,
            api=self.api,
            codex_base_url=self.login.codex_base_url,
        )


Dollars = Annotated[float, Field(ge=0, le=1_000_000_000)]


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


class BudgetConfig(ConfigModel):
    """What may be spent, where `hermes budget set` says nothing else; 0 is no limit."""

    profile_usd: Annotated[Dollars, Yaml("budget.profile.usd")] = 0.0
    """US dollars that a profile may ever spend."""
    profile_tokens: Annotated[int, Field(ge=0), Yaml("budget.profile.tokens")] = 0
    """Tokens that a profile may ever use, sent and received."""
    session_usd: Annotated[Dollars, Yaml("budget.session.usd")] = 0.0
    """US dollars that each session may spend."""
    session_tokens: Annotated[int, Field(ge=0), Yaml("budget.session.tokens")] = 0
    """Tokens that each session may use."""
    job_usd: Annotated[Dollars, Yaml("budget.job.usd")] = 0.0
    """US dollars that all runs of a scheduled job may spend together."""
    job_tokens: Annotated[int, Field(ge=0), Yaml("budget.job.tokens")] = 0
    """Tokens that all runs of a scheduled job may use together."""
    day_usd: Annotated[Dollars, Yaml("budget.day.usd")] = 0.0
    """US dollars that a profile may spend in a day, which begins at midnight in `timezone`."""
    day_tokens: Annotated[int, Field(ge=0), Yaml("budget.day.tokens")] = 0
    """Tokens that a profile may use in a day."""
    warn_percent: Annotated[int, Field(ge=1, le=100), Yaml("budget.warn_percent")] = 80
    """Percent of a budget from which on a turn says how much of it is spent."""

    @property
    def policy(self) -> budget.Policy:
        """The same as it is held to."""
        limits = {
            budget.Scope.PROFILE: (self.profile_usd, self.profile_tokens),
            budget.Scope.SESSION: (self.session_usd, self.session_tokens),
            budget.Scope.JOB: (self.job_usd, self.job_tokens),
            budget.Scope.DAY: (self.day_usd, self.day_tokens),
        }
        amounts = {
            s: budget.Amount(round(usd * budget.PER_USD), tokens)
            for s, (usd, tokens) in limits.items()
        }
        return budget.Policy(amounts, self.warn_percent)


class SandboxPolicy(ConfigModel):
    """Of which of the executor's templates a new session's sandbox is made."""

    template: Annotated[str, Yaml("sandbox.template"), Env("HERMES_SANDBOX_TEMPLATE")] = ""
    """Template of the sandboxes; unset is the executor's usual one."""
    jobs: Annotated[str, Yaml("sandbox.jobs")] = ""
    """Template for the runs of jobs; unset is that of other sessions."""
    profiles: Annotated[dict[str, str], Yaml("sandbox.profiles")] = Field(
        default_factory=dict[str, str]
    )
    """Templates of profiles that have one of their own."""

    def of(self, profile: str, kind: str) -> str:
        """The template of a session that begins with a turn of a kind; empty is the usual one."""
        of_kind = self.jobs if kind == "job" else ""
        return self.profiles.get(profile, "") or of_kind or self.template


class MemoryConfig(ConfigModel):
    """What is remembered across sessions."""

    enabled: Annotated[bool, Yaml("memory.memory_enabled", "memory.enabled")] = True
    """Whether sessions are told what is remembered, and can remember more."""
    limit: Annotated[Literal["fixed", "scaled"], Yaml("memory.limit")] = "fixed"
    """`scaled` makes both limits larger for a model with a window of more than 128,000 tokens: as
    many times as the window is, and at most four times."""
    memory_char_limit: Annotated[
        int, Field(ge=100, le=100_000), Yaml("memory.memory_char_limit")
    ] = 2200
    """Characters that MEMORY.md may have, the agent's own notes."""
    user_char_limit: Annotated[int, Field(ge=100, le=100_000), Yaml("memory.user_char_limit")] = (
        1375
    )
    """Characters that USER.md may have, what is known of the user."""


class ProfilesConfig(ConfigModel):
    """Where memories, skills, SOUL.md and other files of profiles are."""

    store: Annotated[
        Literal["files", "database"], Yaml("profiles.store"), Env("HERMES_PROFILES_STORE")
    ] = "files"
    """`files` of the home, or the agent's `database`, for replicas that share no disk."""


class CompressionConfig(ConfigModel):
    """What happens to conversations that become too long for their model."""

    enabled: Annotated[bool, Yaml("compression.enabled")] = True
    """Whether the middle of a long conversation is condensed, instead of the turn failing."""
    threshold: Annotated[float | None, Field(ge=0.1, le=0.95), Yaml("compression.threshold")] = None
    """Share of the model's window from which on; unset is 0.75, and 0.5 from 512,000 tokens on."""
    protect_first_n: Annotated[int, Field(ge=0, le=50), Yaml("compression.protect_first_n")] = 3
    """Messages at the beginning that stay as they are."""
    protect_last_n: Annotated[int, Field(ge=1, le=200), Yaml("compression.protect_last_n")] = 4
    """Messages at the end that stay as they are, at least."""
    summary_model: Annotated[str, Yaml("compression.summary_model")] = ""
    """Older name of `auxiliary.compression.model`."""

    def policy(self, route: Route) -> Policy:
        """When and how conversations are compressed, by which model if not by their own."""
        limits = (self.enabled, self.threshold, self.protect_first_n, self.protect_last_n)
        return Policy(*limits, route)


class DelegationConfig(ConfigModel):
    """How work is handed to subagents."""

    max_concurrent: Annotated[int, Field(ge=1, le=16), Yaml("delegation.max_concurrent")] = 3
    """Tasks that one call of `delegate_task` may hand over, to be worked on side by side."""


EAGER_TO_ANNOUNCE = ("gpt", "codex")
"""Parts of the ids of models that like to announce what they then do not do."""


def _parts_of_ids(given: Sequence[str] | bool) -> Sequence[str]:
    words = {"true": ("",), "on": ("",), "false": (), "off": (), "auto": EAGER_TO_ANNOUNCE}
    parts = [given] if isinstance(given, bool) else given
    match [str(part).lower() for part in parts]:
        case [word] if word in words:
            return words[word]
        case others:
            return others


class AgentConfig(ConfigModel):
    """What the agent service can be configured with."""

    model: ModelConfig
    compression: CompressionConfig
    memory: MemoryConfig
    learning: LearningConfig
    profiles: ProfilesConfig
    skills: SkillsConfig
    delegation: DelegationConfig
    sandbox: SandboxPolicy
    fetch: FetchConfig
    search: SearchConfig
    mixture: MixtureConfig
    budget: BudgetConfig
    tools: ToolsConfig
    terminal: TerminalConfig
    overlays: OverlayConfig
    approvals: ApprovalsConfig
    jobs: JobsConfig
    providers: ProvidersConfig
    auxiliary: Annotated[dict[str, AuxiliaryModel], Yaml("auxiliary")] = Field(
        default_factory=dict[str, AuxiliaryModel]
    )
    """Models of the tasks `compression`, `vision` (looks at pictures), `approval` (looks at
    commands with `approvals.mode: smart`), `curator` (judges which skills belong together),
    `title` (names new sessions) and `guard` (looks for orders to the agent in what tools bring from
    elsewhere): `model`, and where it is elsewhere `provider`, or `base_url` and `key_env`. A task
    without one is the conversation's model's, but for `compression` where that is OpenRouter's.
    `title` and `guard` are only done where they are set; `{provider: main}` has the conversation's
    model do it."""
    fallback: Annotated[
        tuple[FallbackModel, ...], Yaml("fallback_providers", "fallback_model")
    ] = ()
    """Models that take over, in their order, where the configured one fails: `provider` and
    `model`; or `base_url`, `model` and `key_env`, the variable with the key."""
    models: Annotated[dict[str, ModelSettings], Yaml("models")] = Field(
        default_factory=dict[str, ModelSettings]
    )
    """By model id, what the catalogue does not know or has wrong: `window`, `max_output` (tokens)
    and `price` (`input`, `output`, `cache_read`, `cache_write`: USD for a million tokens)."""
    max_turns: Annotated[int, Field(ge=1, le=1000), Yaml("agent.max_turns")] = 90
    """Model calls that one message may cause."""
    system_message: Annotated[str, Yaml("agent.system_message")] = ""
    """Added to the system prompt of every new session."""
    tool_use_enforcement: Annotated[
        tuple[str, ...],
        BeforeValidator(_parts_of_ids),
        TypeName("auto, on, off, or a list of parts of model ids"),
        Yaml("agent.tool_use_enforcement"),
    ] = EAGER_TO_ANNOUNCE
    """Models whose sessions are told more strictly to act instead of announcing it; `auto` is those
    whose id has `gpt` or `codex` in it."""
    session_id_in_prompt: Annotated[bool, Yaml("agent.session_id_in_prompt")] = True
    """Whether new sessions are told their ids."""
    context_file_max_chars: Annotated[
        int, Field(ge=1000, le=1_000_000), Yaml("context_file_max_chars")
    ] = 20_000
    """Characters that are taken over of SOUL.md and of each context file of a folder."""
    save_trajectories: Annotated[
        bool, Yaml("agent.save_trajectories", "save_trajectories"), Env("HERMES_SAVE_TRAJECTORIES")
    ] = False
    """Whether each turn that has ended is also written to `trajectory_samples.jsonl` of the home,
    or to `failed_trajectories.jsonl`."""
    time_zone: Annotated[str, Yaml("timezone"), Env("HERMES_TIMEZONE")] = ""
    """IANA time zone of the times that the agent is told; empty is the machine's."""
    endpoint: Annotated[str, Yaml("agent.endpoint"), Env("HERMES_AGENT_ENDPOINT")] = ""
    """Address at which the other replicas reach this one, such as `agent-0.agent:7443`, or
    `10.0.0.7:7401#agent.example.org` where its certificate is for that name; unset, they follow
    its turns in the database, which shows no text before a step is through."""
    lease_s: Annotated[
        float, Field(ge=3, le=300), Yaml("agent.lease_s"), Env("HERMES_AGENT_LEASE_S")
    ] = 30.0
    """Seconds after which a replica that does not answer loses its turns to another."""
    executor_away_s: Annotated[
        float,
        Field(ge=1, le=300),
        Yaml("agent.executor_away_s"),
        Env("HERMES_AGENT_EXECUTOR_AWAY_S"),
    ] = 5.0
    """Seconds after which an executor that does not answer loses its sessions to another, where
    there are several."""

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone; None is the machine's."""
        return ZoneInfo(self.time_zone) if self.time_zone else None


MODELS: tuple[type[ConfigModel], ...] = (AgentConfig,)
"""What `hermes config` shows of this service."""
