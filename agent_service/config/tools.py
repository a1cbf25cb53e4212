"""Settings of what models can do: toolsets, commands, approvals, the web and sandboxes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints

from agent_service.config.toolsets import NOTHING, TOOLSETS, known_toolset
from agent_service.security.fetch.destinations import FetchRefused, Origin
from services.config.settings import ConfigModel, Env, Yaml, section
from services.rpc.public_addresses import Network, ranges
from services.runtime.platforms import PlatformName

Toolset = Annotated[str, AfterValidator(known_toolset)]


@section("tools")
class ToolsConfig(ConfigModel):
    """Which toolsets models are not offered, though nothing that they need is missing."""

    preset: Annotated[Literal["auto", "lean", "full"], Yaml("tools.preset", "tools")] = "auto"
    """`full` offers all tools. `lean` offers only a terminal, files, memory and skills, described
    in brief, for models with little context. `auto` is lean if the model has less than 16,000
    tokens of context. Existing sessions keep their tools."""
    rl: bool = False
    """Offers the toolset `rl`, with which models run environments: batches of scored tasks."""
    disabled: tuple[Toolset, ...] = ()
    """Toolsets that are off everywhere."""
    profiles: dict[str, tuple[Toolset, ...]] = Field(default_factory=dict[str, tuple[Toolset, ...]])
    """By profile, more toolsets that are off."""
    platforms: dict[PlatformName, tuple[Toolset, ...]] = Field(
        default_factory=dict[PlatformName, tuple[Toolset, ...]]
    )
    """By platform, such as `telegram` or `cli`, more toolsets that are off for its messages."""
    only_profiles: Annotated[dict[str, tuple[Toolset, ...]], Yaml("tools.only.profiles")] = Field(
        default_factory=dict[str, tuple[Toolset, ...]]
    )
    """By profile, the only toolsets that can be on."""
    only_platforms: Annotated[
        dict[PlatformName, tuple[Toolset, ...]], Yaml("tools.only.platforms")
    ] = Field(default_factory=dict[PlatformName, tuple[Toolset, ...]])
    """By platform, the only toolsets that can be on for messages from there."""

    def why_off(self, toolset: str, profile: str, platform: str = "") -> str:
        """What turned a toolset off; empty when nothing has."""
        if toolset in self.disabled:
            return "turned off"
        if toolset in self.profiles.get(profile, ()):
            return f"turned off in the profile {profile}"
        if toolset in self.platforms.get(platform, ()):
            return f"turned off on {platform}"
        if toolset not in self.only_profiles.get(profile, TOOLSETS):
            return f"not among those that the profile {profile} has"
        if toolset not in self.only_platforms.get(platform, TOOLSETS):
            return f"not among those that {platform} has"
        return ""

    def named_platforms(self) -> Sequence[str]:
        """The platforms on which something may be off that is on elsewhere."""
        return sorted({*self.platforms, *self.only_platforms})

    def toolsets_for(self, profile: str, platform: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """What a turn gets that asks for some toolsets, or for all; empty means all."""
        asked = wanted or TOOLSETS
        off = {*self.disabled, *self.profiles.get(profile, ()), *self.platforms.get(platform, ())}
        on = {*self.only_profiles.get(profile, TOOLSETS)} - off
        on.intersection_update(self.only_platforms.get(platform, TOOLSETS))
        left = tuple(name for name in asked if name in on)
        return wanted if len(left) == len(asked) else left or NOTHING


def _folder(given: str) -> str:
    """`.` is the workspace, and never the folder that a program was started in."""
    return "" if given.strip() in (".", "./") else given.strip()


class TerminalConfig(ConfigModel):
    """How the `terminal` tool runs commands where the model says nothing else."""

    timeout_s: Annotated[float, Field(gt=0, le=86_400), Yaml("terminal.timeout")] = 180.0
    """Seconds after which a command in the foreground is killed, unless the model sets another
    time; more than 600 counts as 600."""
    cwd: Annotated[str, AfterValidator(_folder), Yaml("terminal.cwd")] = ""
    """Folder in which the first command of a sandbox starts, if it exists: in the sandbox, or on
    the machine if nothing is isolated. A relative path starts at the workspace, which is `.`."""


def _known(value: object) -> object:
    return "deny" if value == "approve" else value


@section("approvals")
class ApprovalsConfig(ConfigModel):
    """What runs without a question, what a person decides, and what is refused."""

    mode: Literal["manual", "smart", "off"] = "manual"
    """`manual` asks a person before a command that is dangerous or not understood. `smart` lets a
    model allow commands that it finds harmless, and asks a person about the rest. `off` asks
    nobody. Commands that would destroy the machine are refused in every mode."""
    sandboxed: Literal["run", "ask"] = "run"
    """`ask` also asks before dangerous commands that can harm only a disposable sandbox."""
    deny: tuple[str, ...] = ()
    """Patterns of commands that are always refused, such as `git push*`."""
    timeout_s: Annotated[float, Field(ge=1, le=7 * 86_400), Yaml("approvals.timeout")] = 900.0
    """Seconds after which an unanswered approval counts as denied."""
    unattended: Annotated[
        Literal["deny", "wait", "halt"],
        BeforeValidator(_known),
        Yaml("approvals.unattended", "approvals.cron_mode"),
    ] = "deny"
    """What happens if a job or a subagent needs an approval, when nobody is there to answer: `deny`
    refuses the call at once; `wait` waits for `hermes approvals`; `halt` ends the turn. A job can
    have its own setting: `hermes jobs add --unattended`. `approve`, from older homes, counts as
    `deny`: nothing runs without an approval."""


@section("sandbox")
class SandboxPolicy(ConfigModel):
    """Of which of the executor's templates a new session's sandbox is made."""

    template: Annotated[str, Env("HERMES_SANDBOX_TEMPLATE")] = ""
    """Template of the sandboxes; unset is the executor's default."""
    jobs: str = ""
    """Template for the runs of jobs; unset is that of other sessions."""
    profiles: dict[str, str] = Field(default_factory=dict[str, str])
    """By profile, its own template."""

    def template_for(self, profile: str, kind: str) -> str:
        """The template of a session that begins with a turn of a kind; empty is the usual one."""
        of_kind = self.jobs if kind == "job" else ""
        return self.profiles.get(profile, "") or of_kind or self.template


class DelegationConfig(ConfigModel):
    """How work is handed to subagents."""

    max_concurrent: Annotated[int, Field(ge=1, le=16), Yaml("delegation.max_concurrent")] = 3
    """Maximum number of tasks that one call of `delegate_task` may start in parallel."""


class JobsConfig(ConfigModel):
    """How runs of jobs begin."""

    script_timeout_s: Annotated[
        float,
        Field(ge=1, le=86_400),
        Yaml("cron.script_timeout_s"),
        Env("HERMES_CRON_SCRIPT_TIMEOUT_S"),
    ] = 600.0
    """Seconds after which the script of a job's run is killed and the run fails."""


def _ranges(texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        ranges(texts)
    except ValueError:
        raise ValueError("is not a list of address ranges such as 192.168.1.0/24") from None
    return texts


def _url(text: str) -> str:
    try:
        if text:
            Origin.parse(text)
    except FetchRefused as refused:
        # It is not repeated, as it may hold a password.
        raise ValueError(f"is not usable: {refused}") from None
    return text.rstrip("/")


_Url = Annotated[str, AfterValidator(_url)]


@section("security")
class FetchConfig(ConfigModel):
    """Where the web tools may go, and what follows from having been there."""

    allow_private_networks: Annotated[tuple[str, ...], AfterValidator(_ranges)] = ()
    """Private address ranges from which tools fetch, such as `192.168.1.0/24`. The metadata
    services of clouds stay closed. For the browser, name hosts in `security.browser.allow`."""
    allow_ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = ()
    """Ports that URLs may name besides 80 and 443."""
    taint: Literal["ask", "off"] = "ask"
    """What happens in a session that has read untrusted text, from the web or from a sandbox that
    is open to others. `ask` asks a person before anything outlasts or leaves the session: memory,
    skills, messages to other chats, data that commands send, new addresses. `off` asks nobody."""

    @property
    def private(self) -> tuple[Network, ...]:
        return tuple(ranges(self.allow_private_networks))


HostName = Annotated[str, StringConstraints(pattern=r"^(\*\.)?[\w.:-]+$", to_lower=True)]


class BrowserConfig(ConfigModel):
    """Where the browser of the browser tools is, and which hosts it may reach."""

    template: Annotated[str, Yaml("browser.template")] = ""
    """Template of the executor whose sandboxes have Chromium and playwright, such as `browser`."""
    cdp_url: Annotated[SecretStr, Yaml("browser.cdp_url"), Env("BROWSER_CDP_URL")] = SecretStr("")
    """Address of a browser's DevTools, such as `http://127.0.0.1:9222`, to use that one instead."""
    python: Annotated[str, Yaml("browser.python")] = "python3"
    """Python with playwright in those sandboxes."""
    allow: Annotated[tuple[HostName, ...], Yaml("security.browser.allow")] = ()
    """The only hosts that the browser may reach: `example.com`, `*.example.com`; unset is every
    public one. A host that is named here need not be public."""
    deny: Annotated[tuple[HostName, ...], Yaml("security.browser.deny")] = ()
    """Hosts that the browser may not reach."""


class SearchConfig(ConfigModel):
    """What searches the web."""

    provider: Annotated[
        Literal["", "brave", "tavily", "exa", "firecrawl", "searxng"], Yaml("web.search_provider")
    ] = ""
    """Which of the configured providers is asked first; unset is the first of `brave`, `tavily`,
    `exa`, `firecrawl` and `searxng`."""
    brave_api_key: Annotated[SecretStr, Env("BRAVE_API_KEY")] = SecretStr("")
    """Key for the Brave Search API."""
    brave_base_url: Annotated[_Url, Env("BRAVE_BASE_URL")] = "https://api.search.brave.com"
    """Base URL of the Brave Search API."""
    tavily_api_key: Annotated[SecretStr, Env("TAVILY_API_KEY")] = SecretStr("")
    """Key for Tavily."""
    tavily_base_url: Annotated[_Url, Env("TAVILY_BASE_URL")] = "https://api.tavily.com"
    """Base URL of Tavily's API."""
    exa_api_key: Annotated[SecretStr, Env("EXA_API_KEY")] = SecretStr("")
    """Key for Exa."""
    exa_base_url: Annotated[_Url, Env("EXA_BASE_URL")] = "https://api.exa.ai"
    """Base URL of Exa's API."""
    firecrawl_api_key: Annotated[SecretStr, Env("FIRECRAWL_API_KEY")] = SecretStr("")
    """Key for Firecrawl."""
    firecrawl_base_url: Annotated[_Url, Env("FIRECRAWL_API_URL")] = "https://api.firecrawl.dev"
    """Base URL of Firecrawl's API."""
    searxng_url: Annotated[_Url, Yaml("web.searxng_url"), Env("SEARXNG_URL")] = ""
    """Address of a SearXNG with its JSON format enabled; it may be in a private network."""


class MixtureConfig(ConfigModel):
    """The models of a mixture, by their ids at the endpoint of the conversation."""

    references: Annotated[
        tuple[str, ...], Field(max_length=8), Yaml("mixture.reference_models")
    ] = ()
    """Models that each answer the question of `mixture_of_agents`; unset turns the tool off."""
    aggregator: Annotated[str, Yaml("mixture.aggregator_model")] = ""
    """Model that combines their answers; unset is the conversation's model."""
