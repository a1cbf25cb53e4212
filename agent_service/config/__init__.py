"""The agent's settings."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field

from agent_service.config.endpoints import (
    TRANSCRIPTION,
    AuxiliaryModel,
    FallbackEntry,
    ProvidersConfig,
    TaskName,
)
from agent_service.config.mcp import McpServer, ServerName
from agent_service.config.models import ModelConfig, ModelSettings
from agent_service.config.senses import (
    HomeAssistantConfig,
    PicturesConfig,
    SpeechConfig,
    TranscriptionConfig,
)
from agent_service.config.sessions import (
    BudgetConfig,
    CompressionConfig,
    HonchoConfig,
    LearningConfig,
    MemoryConfig,
    OverlayConfig,
    ProfilesConfig,
    SkillsConfig,
)
from agent_service.config.tools import (
    ApprovalsConfig,
    BrowserConfig,
    DelegationConfig,
    FetchConfig,
    JobsConfig,
    MixtureConfig,
    SandboxPolicy,
    SearchConfig,
    TerminalConfig,
    ToolsConfig,
)
from agent_service.models.endpoints import OPENAI_URL
from services.config.fields import TypeName
from services.config.settings import ConfigModel, Env, Yaml, section

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


@section("agent")
class AgentConfig(ConfigModel):
    """What the agent service can be configured with."""

    model: ModelConfig
    compression: CompressionConfig
    memory: MemoryConfig
    honcho: HonchoConfig
    learning: LearningConfig
    profiles: ProfilesConfig
    skills: SkillsConfig
    delegation: DelegationConfig
    sandbox: SandboxPolicy
    fetch: FetchConfig
    search: SearchConfig
    speech: SpeechConfig
    transcription: TranscriptionConfig
    pictures: PicturesConfig
    homeassistant: HomeAssistantConfig
    browser: BrowserConfig
    mixture: MixtureConfig
    budget: BudgetConfig
    tools: ToolsConfig
    terminal: TerminalConfig
    overlays: OverlayConfig
    approvals: ApprovalsConfig
    jobs: JobsConfig
    providers: ProvidersConfig
    auxiliary: Annotated[dict[TaskName, AuxiliaryModel], Yaml("auxiliary")] = Field(
        default_factory=dict[TaskName, AuxiliaryModel]
    )
    """Models for the tasks `compression`, `vision` (looks at pictures), `transcription` (writes
    down what is said in voice messages and other sound), `approval` (looks at
    commands with `approvals.mode: smart`), `curator` (judges which skills belong together), `title`
    (names new sessions) and `guard` (looks for orders to the agent in what tools bring from
    elsewhere): `model`, and for another endpoint `provider`, or `base_url` and `key_env`. A task
    without a model uses the conversation's model, except `compression` if that model is
    OpenRouter's. `title` and `guard` run only if they are set, `transcription` also with a
    provider that listens (`stt`); `{provider: main}` uses the conversation's model."""
    fallback: Annotated[
        tuple[FallbackEntry, ...], Yaml("fallback_providers", "fallback_model")
    ] = ()
    """Models that take over in this order if the configured one fails: `provider` and `model`; or
    `base_url`, `model` and `key_env`, the variable with the key."""
    models: Annotated[dict[str, ModelSettings], Yaml("models")] = Field(
        default_factory=dict[str, ModelSettings]
    )
    """By model id, values that the catalogue lacks or has wrong: `window`, `max_output` (tokens),
    `price` (`input`, `output`, `cache_read`, `cache_write`: USD for a million tokens) and `vision`
    (whether it can look at pictures)."""
    mcp_servers: Annotated[dict[ServerName, McpServer], Yaml("mcp_servers")] = Field(
        default_factory=dict[ServerName, McpServer]
    )
    """MCP servers by name, whose tools models may call: `command`, `args` and `env` of a program
    that runs in a sandbox of its own, with the `hosts` that it may reach; or the `url` of one that
    runs elsewhere, with `headers` or `auth: oauth`."""
    max_turns: Annotated[int, Field(ge=1, le=1000)] = 90
    """Maximum number of model calls for one message."""
    system_message: str = ""
    """Added to the system prompt of every new session."""
    tool_use_enforcement: Annotated[
        tuple[str, ...],
        BeforeValidator(_parts_of_ids),
        TypeName("auto, on, off, or a list of parts of model ids"),
    ] = EAGER_TO_ANNOUNCE
    """Models that get stricter instructions to act instead of announcing actions; `auto` means
    those with `gpt` or `codex` in their id."""
    context_file_max_chars: Annotated[
        int, Field(ge=1000, le=1_000_000), Yaml("context_file_max_chars")
    ] = 20_000
    """Maximum number of characters that the prompt takes from SOUL.md and from each context
    file."""
    save_trajectories: Annotated[
        bool, Yaml("agent.save_trajectories", "save_trajectories"), Env("HERMES_SAVE_TRAJECTORIES")
    ] = False
    """Whether each finished turn is also written to `trajectory_samples.jsonl` of the home, or to
    `failed_trajectories.jsonl` if it failed."""
    time_zone: Annotated[str, Yaml("timezone"), Env("HERMES_TIMEZONE")] = ""
    """IANA time zone of the times that the agent sees; empty is the machine's."""
    endpoint: Annotated[str, Env("HERMES_AGENT_ENDPOINT")] = ""
    """Address at which other replicas reach this one, such as `agent-0.agent:7443`, or
    `10.0.0.7:7401#agent.example.org` if its certificate is for that name. If it is unset, replicas
    follow its turns in the database, which shows text only after each step."""
    lease_s: Annotated[float, Field(ge=3, le=300), Env("HERMES_AGENT_LEASE_S")] = 30.0
    """Seconds after which a replica that does not answer loses its turns to another one."""
    executor_away_s: Annotated[float, Field(ge=1, le=300), Env("HERMES_AGENT_EXECUTOR_AWAY_S")] = (
        5.0
    )
    """Seconds after which an executor that does not answer loses its sessions to another one, if
    there are several."""

    @property
    def tasks(self) -> Mapping[str, AuxiliaryModel]:
        """The models of tasks, with the one that listens."""
        chosen = self.auxiliary.get(TRANSCRIPTION)
        if chosen is not None and chosen.model:
            return self.auxiliary
        own = bool(self.speech.openai_key.get_secret_value())
        has = {
            "groq": self.transcription.groq_api_key.get_secret_value(),
            "elevenlabs": self.speech.elevenlabs_api_key.get_secret_value(),
            "openai": own or self.model.openai_api_key.get_secret_value(),
            "local": self.transcription.provider == "local" and find_spec("faster_whisper"),
        }
        openai_url = (self.providers.openai or OPENAI_URL) if own else ""
        names = frozenset(name for name, is_set in has.items() if is_set)
        listens = self.transcription.model(names, openai_url)
        return self.auxiliary if listens is None else {**self.auxiliary, TRANSCRIPTION: listens}

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone; None is the machine's."""
        return ZoneInfo(self.time_zone) if self.time_zone else None


MODELS: tuple[type[ConfigModel], ...] = (AgentConfig,)
"""What `hermes config` shows of this service."""
