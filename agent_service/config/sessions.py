"""Settings of conversations: memory, skills, compression, budgets and overlays."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from agent_service.profiles.memory.honcho import HonchoSettings, Reasoning
from agent_service.profiles.skills.hub.source import FORMS, HubRefused, parse_source
from agent_service.profiles.skills.hub.sources import HubSetting
from agent_service.profiles.skills.library import Trust
from agent_service.records import budget
from agent_service.records.overlays import MAX_NAME_CHARS, NO_PERSONALITY, Overlay, OverlayMessage
from services.config.settings import ConfigModel, Env, Yaml, section


@section("memory")
class MemoryConfig(ConfigModel):
    """What is remembered across sessions."""

    enabled: Annotated[bool, Yaml("memory.memory_enabled", "memory.enabled")] = True
    """Whether sessions see the memory and can add to it."""
    limit: Literal["fixed", "scaled"] = "fixed"
    """`scaled` raises both limits for models with a window of more than 128,000 tokens, in
    proportion to the window and at most fourfold."""
    memory_char_limit: Annotated[int, Field(ge=100, le=100_000)] = 2200
    """Maximum number of characters in MEMORY.md, the agent's own notes."""
    user_char_limit: Annotated[int, Field(ge=100, le=100_000)] = 1375
    """Maximum number of characters in USER.md, which says what the agent knows about the user."""


@section("honcho")
class HonchoConfig(ConfigModel):
    """Honcho, a memory outside of Hermes that learns who the user is from what is said."""

    provider: Annotated[str, BeforeValidator(lambda name: name or ""), Yaml("memory.provider")] = ""
    """`honcho` uses it besides the profile's own memory; `builtin`, `none` and unset do not."""
    api_key: Annotated[
        SecretStr, Env("HONCHO_API_KEY"), Yaml("honcho.api_key", "honcho.apiKey")
    ] = SecretStr("")
    """Key for Honcho."""
    base_url: Annotated[
        str, Env("HONCHO_BASE_URL", "HONCHO_URL"), Yaml("honcho.base_url", "honcho.baseUrl")
    ] = ""
    """Address of a Honcho server of your own; unset is Honcho's cloud."""
    workspace: Annotated[
        str, Env("HONCHO_WORKSPACE_ID"), Yaml("honcho.workspace", "honcho.workspaceId")
    ] = "hermes"
    """Honcho's workspace."""
    peer_name: Annotated[str, Yaml("honcho.peer_name", "honcho.peerName")] = "user"
    """Your name at Honcho, in all chats."""
    ai_peer: Annotated[str, Yaml("honcho.ai_peer", "honcho.aiPeer")] = "hermes"
    """The agent's name at Honcho; profiles other than `default` add their names."""
    recall_mode: Annotated[
        Literal["hybrid", "context", "tools"], Yaml("honcho.recall_mode", "honcho.recallMode")
    ] = "hybrid"
    """`context` adds what Honcho knows to prompts and messages, `tools` lets the model ask for it,
    `hybrid` does both."""
    context_tokens: Annotated[
        int, Field(ge=100, le=20_000), Yaml("honcho.context_tokens", "honcho.contextTokens")
    ] = 1000
    """Maximum number of tokens, at about four characters each, that a prompt or a message gets."""
    reasoning_level: Annotated[
        Reasoning, Yaml("honcho.reasoning_level", "honcho.dialecticReasoningLevel")
    ] = "low"
    """How hard Honcho thinks about a question of `honcho_context`."""

    @property
    def setting(self) -> HonchoSettings:
        return HonchoSettings(
            self.api_key.get_secret_value(),
            self.base_url.rstrip("/"),
            self.workspace,
            self.peer_name,
            self.ai_peer,
            self.context_tokens * 4,
            self.reasoning_level,
        )


class ProfilesConfig(ConfigModel):
    """Where memories, skills, SOUL.md and other files of profiles are."""

    store: Annotated[
        Literal["files", "database"], Yaml("profiles.store"), Env("HERMES_PROFILES_STORE")
    ] = "files"
    """`files` in the home, or the agent's `database` for replicas that share no disk."""


@section("compression")
class CompressionConfig(ConfigModel):
    """What happens to conversations that become too long for their model."""

    enabled: bool = True
    """Whether the agent compresses the middle of a long conversation. If not, turns that do not fit
    the window fail."""
    threshold: Annotated[float | None, Field(ge=0.1, le=0.95)] = None
    """Share of the model's window at which the agent compresses; unset is 0.75, and 0.5 for windows
    of 512,000 tokens or more."""
    protect_first_n: Annotated[int, Field(ge=0, le=50)] = 3
    """Number of messages at the beginning that stay unchanged."""
    protect_last_n: Annotated[int, Field(ge=1, le=200)] = 4
    """Minimum number of messages at the end that stay unchanged."""
    summary_model: str = ""
    """Older name of `auxiliary.compression.model`."""


def _word(given: object) -> object:
    """YAML reads `on` and `off` as truth values."""
    return ("off", "on")[given] if isinstance(given, bool) else given


class LearningConfig(ConfigModel):
    """When the agent looks back at a conversation to keep something of it."""

    memory_nudge_interval: Annotated[int, Field(ge=0, le=10_000), Yaml("memory.nudge_interval")] = (
        10
    )
    """Number of your messages in a session after which the agent reviews the conversation for
    things to remember, unless it has already written to its memory; 0 is never."""
    skill_nudge_interval: Annotated[
        int, Field(ge=0, le=10_000), Yaml("skills.creation_nudge_interval")
    ] = 10
    """Number of answers with tool calls in a session after which the agent reviews the conversation
    for a skill, unless it has already written one; 0 is never."""
    notifications: Annotated[
        Literal["off", "on", "verbose"],
        BeforeValidator(_word),
        Yaml("display.memory_notifications"),
    ] = "on"
    """Whether a line tells you that a review has saved something; `verbose` also says what."""


def _hub_source(text: str) -> str:
    try:
        parse_source(text)
    except HubRefused:
        # It is not repeated, as it may hold a password.
        raise ValueError(f"is no source of skills; one is {FORMS}") from None
    return text


class HubConfig(ConfigModel):
    """A place that skills come from."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
    """What it is called in commands."""
    url: Annotated[str, AfterValidator(_hub_source)]
    """Where it is."""
    trust: Literal["trusted", "community"] = "community"
    """How far its skills are trusted."""

    @property
    def setting(self) -> HubSetting:
        return HubSetting(self.name, parse_source(self.url), Trust(self.trust))


@section("skills")
class SkillsConfig(ConfigModel):
    """Skills, which the agent loads when it needs them."""

    bundled: Annotated[bool, Env("HERMES_SKILLS_BUNDLED")] = True
    """Whether the skills that come with Hermes are copied into each profile's library."""
    hubs: Annotated[tuple[HubConfig, ...], Field(max_length=32)] = ()
    """Where `hermes skills search` looks, each with a `name`, a `url` as `hermes skills install`
    takes it, and `trust`: `trusted` or `community`."""


Dollars = Annotated[float, Field(ge=0, le=1_000_000_000)]


class BudgetConfig(ConfigModel):
    """Spending limits, unless `hermes budget set` sets others; 0 is no limit."""

    profile_usd: Annotated[Dollars, Yaml("budget.profile.usd")] = 0.0
    """US dollars that a profile may spend in total."""
    profile_tokens: Annotated[int, Field(ge=0), Yaml("budget.profile.tokens")] = 0
    """Tokens that a profile may use in total, sent and received."""
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
    unpriced: Annotated[Literal["refuse", "free"], Yaml("budget.unpriced")] = "refuse"
    """What happens with a budget in US dollars if the price of a model is unknown: `refuse` does
    not call the model, `free` counts it as free. Models of your own servers are free unless you set
    their price."""
    warn_percent: Annotated[int, Field(ge=1, le=100), Yaml("budget.warn_percent")] = 80
    """Percentage of a budget at which turns begin to report how much is spent."""

    @property
    def policy(self) -> budget.Policy:
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
        return budget.Policy(amounts, self.warn_percent, self.unpriced == "free")


def _personality_name(name: str) -> str:
    name = name.strip().lower()
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > MAX_NAME_CHARS:
        raise ValueError(f"{name!r} is no name of letters, digits, - and _")
    if name == NO_PERSONALITY:
        raise ValueError(f"{name!r} is what takes a personality away")
    return name


class PrefillMessage(ConfigModel):
    """A message that every request begins with."""

    role: Literal["user", "assistant"]
    """Who says it."""
    content: Annotated[str, Field(min_length=1)]
    """What is said."""


@section("agent")
class OverlayConfig(ConfigModel):
    """What a new session's requests have besides its prompt and its messages, and keep."""

    ephemeral_system_prompt: Annotated[str, Env("HERMES_EPHEMERAL_SYSTEM_PROMPT")] = ""
    """Instructions that follow the system prompt of new sessions without being part of it."""
    prefill_messages: Annotated[tuple[PrefillMessage, ...], Field(max_length=50)] = ()
    """Messages that are sent before those of a new session, such as examples, each with `role`
    (`user` or `assistant`) and `content`. They are not shown and not searchable."""
    personalities: dict[Annotated[str, AfterValidator(_personality_name)], str] = Field(
        default_factory=dict[str, str]
    )
    """Personalities for `/personality`: names and instructions. They can replace built-in ones."""

    @property
    def overlay(self) -> Overlay:
        told = (self.ephemeral_system_prompt,) if self.ephemeral_system_prompt.strip() else ()
        return Overlay(
            told, tuple(OverlayMessage(said.role, said.content) for said in self.prefill_messages)
        )
