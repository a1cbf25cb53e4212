"""The seam between the loop and its tools.

A tool is one small file: a pydantic model of its arguments, from which both the JSON schema that
the model sees and the validation come, and a `run`. What a command or a file answers is a result
that the model reads, never an exception; the two exceptions are for when there is no result.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field
from pydantic import BaseModel, ConfigDict

from agent_service.models.consult import Ask, NoAnswer
from agent_service.profiles.skills.manage import Notes
from agent_service.profiles.skills.shelf import ProfileSkills
from agent_service.records.background import WatchRequest
from agent_service.records.events import Decision
from agent_service.records.requests import TurnOptions, Unattended
from agent_service.records.sandbox import Commands, Files, SandboxInfo
from agent_service.records.subagents import Subagents


class ToolFailed(Exception):
    """The tool failed; the model sees the message as an error."""


class RetryWithHint(Exception):
    """The call made no sense; the model sees how to do better."""


class Effect(StrEnum):
    """What to do with a call that may or may not have run."""

    PURE = "pure"
    """It is run again."""
    KEYED = "keyed"
    """It is run again, and finds what it started by the call's key."""
    UNSAFE = "unsafe"
    """It is never run again; the model is told that it may have taken effect."""


class ToolArguments(BaseModel):
    """Base of every tool's arguments, and of objects in them; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolResult(Struct, frozen=True):
    """What the model is told."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    beside: str = ""
    """More for the model to see, even if the result itself is too long to show."""
    notices: tuple[str, ...] = ()
    """What a person is told about it."""


class SessionState(Notes, Protocol):
    """Small JSON-ready values that a tool keeps with its session."""

    async def add(self, name: str, text: str) -> None:
        """Add a text to a stored set of them, likewise."""
        ...


class Caller(Struct, frozen=True):
    """For whom, and where, a tool is called."""

    profile: str = "default"
    session_id: str = ""
    turn_id: str = ""
    origin: Mapping[str, str] = field(default_factory=dict[str, str])
    """Platform, chat, thread and user that the turn's message came from."""
    options: TurnOptions = TurnOptions()
    """Of the turn."""


class SessionRecords(Protocol):
    """What a session keeps for later calls, under the running turn's fence."""

    async def is_allowed(self, tool: str, binding: str) -> bool:
        """Whether the same call was approved before, for the session or for always."""
        ...

    async def allow(self, tool: str, binding: str, given_by: str) -> None:
        """Allow such calls for the session."""
        ...

    async def add_links(self, text: str) -> None:
        """Keep the addresses in a text, which can be requested from then on."""
        ...

    async def unknown_links(self, urls: Sequence[str]) -> list[str]:
        """Which of these did not come, word for word, from its user or the web."""
        ...

    async def watch(self, key: str, command: str, wanted: WatchRequest) -> None:
        """Notify the model about a background command, even after its turn has ended.

        ToolFailed if it is notified about too many.
        """
        ...

    async def seen(self, key: str) -> None:
        """Note that the model knows that a command has ended."""
        ...


async def _nobody(*_asked: object, **_options: object) -> str:
    raise NoAnswer("no model is available")


class ToolContext(Struct, frozen=True):
    """What a tool may use while it runs one call."""

    key: str
    """Unique key of the call, the same when it is resumed; commands take it as their key."""
    commands: Commands
    files: Files
    state: SessionState
    records: SessionRecords
    """What earlier calls left for later ones."""
    sandbox: Callable[[], Awaitable[SandboxInfo]]
    """Where a command would run; claims the sandbox if need be."""
    decision: Decision | None
    """What a person decided about the call; None where nobody was asked yet."""
    progress: Callable[[str], None]
    """Shows output to whoever watches; never blocks, may drop."""
    place: Callable[[], SandboxInfo] = SandboxInfo
    """Where the call's commands and files have been so far."""
    news: Callable[[], str] = str
    """What to tell the model about the sandbox with the result; mostly nothing."""
    caller: Caller = Caller()
    decided_on: str = ""
    """The binding of what the person who decided was shown."""
    answer: str = ""
    """A person's answer in words, if that is the decision."""
    unattended: Unattended | None = None
    """What happens to a question if nobody is there to answer; None if somebody is."""
    skills: ProfileSkills | None = None
    """Of the caller's profile."""
    subagents: Subagents | None = None
    """Who takes work over."""
    ask: Ask = _nobody
    """Asks a model outside of the conversation."""
    inner: "InnerCalls | None" = None
    """Who makes calls on the call's behalf."""
    terminal_timeout_s: float = 180.0
    """Time after which a command in the foreground is killed, unless the model sets another."""

    @property
    def library(self) -> ProfileSkills:
        """The library of the caller's profile; ToolFailed where there is none."""
        if self.skills is None:
            raise ToolFailed("Skills are not available here.")
        return self.skills

    @property
    def can_ask(self) -> bool:
        """Whether somebody may answer, now or later."""
        return self.unattended in (None, Unattended.WAIT)


class InnerCalls(Protocol):
    """Calls of tools that a call of a tool makes itself, each judged and journaled like its own."""

    def functions(self) -> Mapping[str, list[str]]:
        """The tools that may be called, and the names of their parameters."""
        ...

    async def call(self, number: int, name: str, arguments_json: str) -> ToolResult:
        """Make the call of this number, or give what it has returned already."""
        ...


A = TypeVar("A", bound=ToolArguments)
A_contra = TypeVar("A_contra", bound=ToolArguments, contravariant=True)


class Tool(Protocol[A_contra]):
    """One tool."""

    @property
    def name(self) -> str:
        """The name that the model calls."""
        ...

    @property
    def toolset(self) -> str:
        """The id of the set that it belongs to."""
        ...

    @property
    def arguments(self) -> type[ToolArguments]:
        """The model of its arguments; its docstring is the tool's description."""
        ...

    def effect(self, arguments: A_contra) -> Effect:
        """What to do with a call that may or may not have run."""
        ...

    def writes(self, arguments: A_contra) -> frozenset[str]:
        """What the call changes, such as paths; calls that share one run one after the other."""
        ...

    async def run(self, arguments: A_contra, context: ToolContext) -> ToolResult:
        """Do it."""
        ...


class UsualTool(Generic[A_contra]):
    """A tool most of whose calls do the same."""

    name: str
    toolset: str
    arguments: type[ToolArguments]
    usual_effect = Effect.UNSAFE
    usual_writes: frozenset[str] = frozenset()

    def effect(self, arguments: A_contra) -> Effect:
        """The usual one."""
        return self.usual_effect

    def writes(self, arguments: A_contra) -> frozenset[str]:
        """The usual ones."""
        return self.usual_writes


class Wrapper(UsualTool[A]):
    """Another tool, but for what happens around a call; has no `run` of its own."""

    def __init__(self, inner: Tool[A]) -> None:
        self.name = inner.name
        self.toolset = inner.toolset
        self.arguments = inner.arguments
        self._inner = inner

    def effect(self, arguments: A) -> Effect:
        """The inner tool's."""
        return self._inner.effect(arguments)

    def writes(self, arguments: A) -> frozenset[str]:
        """The inner tool's."""
        return self._inner.writes(arguments)
