"""Settings of MCP servers."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
)

from agent_service.security.fetch.destinations import FetchRefused, Origin
from services.config.settings import ConfigModel, is_secret_name

SERVER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$"
ServerName = Annotated[str, StringConstraints(pattern=SERVER_NAME)]

OPEN = "*"
"""The host that stands for every public address."""


def _words(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _url(text: str) -> str:
    try:
        if text:
            Origin.parse(text)
    except FetchRefused as refused:
        # It is not repeated, as it may hold a password.
        raise ValueError(f"is not usable: {refused}") from None
    return text


class McpToolFilter(ConfigModel):
    """Which tools of a server are offered."""

    model_config = ConfigDict(extra="ignore")

    include: tuple[str, ...] = ()
    """Names of the only tools that are offered; empty means all."""
    exclude: tuple[str, ...] = ()
    """Names of tools that are not offered."""

    def allows(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)


class McpServer(ConfigModel):
    """An MCP server, whose tools models may call: a command in a sandbox, or a URL."""

    model_config = ConfigDict(extra="ignore")  # homes have more to say of each than is read here

    enabled: bool = True
    """Whether its tools are offered."""
    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """Program that runs in a sandbox of its own and speaks on its standard input and output."""
    args: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """Arguments of the program."""
    env: dict[str, str] = Field(default_factory=dict[str, str])
    """Variables of the program; never secrets."""
    secrets: tuple[str, ...] = ()
    """Names from `executor.secrets`: the program sees placeholders, and the executor puts the
    values into its requests."""
    hosts: Annotated[tuple[str, ...], BeforeValidator(_words)] = ()
    """Hosts that the program may reach, such as `api.example.com` or `*.example.com:8443`; `*` is
    every public address. Unset is no network."""
    template: str = ""
    """Template of the sandbox; unset is the executor's default."""
    workdir: str = ""
    """Folder of the executor's machine that is `/workspace`; needs `executor.allow_workdir`."""
    url: Annotated[str, AfterValidator(_url)] = ""
    """Address of a server that runs elsewhere, instead of a command."""
    transport: Literal["", "http", "streamable-http", "streamable_http", "sse", "stdio"] = ""
    """How the URL is spoken to: `http` (streamable HTTP, the default) or the older `sse`."""
    headers: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """Headers of every request, such as `Authorization: Bearer ${TOKEN}`."""
    auth: Literal["", "oauth"] = ""
    """`oauth` logs in with OAuth 2.1: `hermes mcp login NAME`."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """Seconds that a call may take."""
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds that a connection may take, the start of the program included."""
    tools: McpToolFilter = McpToolFilter()
    """Which of its tools are offered: `include` or `exclude`, lists of names."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The program with its arguments; empty for a URL."""
        return (*self.command, *self.args) if self.command else ()

    @property
    def problem(self) -> str:
        """Why the server cannot be used as configured; empty if it can."""
        if bool(self.command) == bool(self.url):
            return "set either command or url"
        if self.command and (found := self._secret_variables()):
            return (
                f"env has {', '.join(found)}, and a sandbox must not hold secrets: put the value "
                "into executor.secrets, and its name into secrets"
            )
        return ""

    def _secret_variables(self) -> Sequence[str]:
        return [name for name, value in self.env.items() if value and is_secret_name(name)]
