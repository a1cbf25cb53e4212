"""The seam between the loop and its tools.

A tool is one small file: a pydantic model of its arguments, which gives the JSON schema and the
validation, and a `run`. Output of commands and files is a result, never an exception.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from agent_service.models.consult import Ask, NoAnswer, PaidCall
from agent_service.profiles.skills.manage import Notes
from agent_service.profiles.skills.shelf import ProfileSkills
from agent_service.records.arguments import ToolArguments
from agent_service.records.background import WatchRequest
from agent_service.records.calls import Decided, PendingCall
from agent_service.records.events import Decision
from agent_service.records.requests import TurnOptions, Unattended
from agent_service.records.sandbox import Commands, Files, SandboxInfo
from agent_service.tools.subagents import Subagents


class ToolFailed(Exception):
    """The tool failed; the model sees the message as an error."""


class ForeignFailure(ToolFailed):
    """A failure whose message has words of others, which `Untrusted` fences."""


class RetryWithHint(Exception):
    """The call was invalid; the model sees the message as a hint."""


class Effect(StrEnum):
    """What to do with a call that may or may not have run before a crash."""

    PURE = "pure"
    """Run it again."""
    KEYED = "keyed"
    """Run it again; it finds earlier work by the call's key."""
    UNSAFE = "unsafe"
    """Never run it again; tell the model that it may have taken effect."""


class Picture(Struct, frozen=True):
    """A picture of a result: PNG, JPEG, GIF or WebP."""

    data: bytes
    name: str = "picture"
    """The name of its file in the workspace, without the suffix."""


class ShownPictures(Struct, frozen=True):
    """What a message has of pictures."""

    text: str = ""
    """Descriptions, if the model gets no picture."""
    parts: Sequence[Mapping[str, Any]] = ()
    notices: tuple[str, ...] = ()


class ToolResult(Struct, frozen=True):
    """The result of a call, as the model sees it."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    beside: str = ""
    """More text for the model, shown even if the result itself is too long."""
    notices: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    """Shown to a model that sees and described to another; a program's own calls show none."""


class SessionState(Notes, Protocol):
    """Small JSON-ready values that a tool keeps with its session."""

    async def add(self, name: str, text: str) -> None: ...


class Caller(Struct, frozen=True):
    """Who calls a tool, and from where."""

    profile: str = "default"
    session_id: str = ""
    turn_id: str = ""
    origin: Mapping[str, str] = field(default_factory=dict[str, str])
    """Platform, chat, thread and user of the turn's message."""
    options: TurnOptions = TurnOptions()
    is_private: bool = True


class SessionRecords(Protocol):
    """What a session keeps for later calls."""

    async def is_allowed(self, tool: str, binding: str) -> bool:
        """Whether the same call is approved for the session or permanently."""
        ...

    async def allow(self, tool: str, binding: str, given_by: str) -> None: ...

    async def add_links(self, text: str) -> None: ...

    async def unknown_links(self, urls: Sequence[str]) -> list[str]:
        """The URLs that did not come word for word from the user or the web."""
        ...

    async def watch(self, key: str, command: str, wanted: WatchRequest) -> None:
        """Notify the model about a background command; ToolFailed if it watches too many."""
        ...

    async def mark_seen(self, key: str) -> None: ...


async def _nobody(*_asked: object, **_options: object) -> Any:
    raise NoAnswer("no model is available")


async def _unshown(_pictures: Sequence[Picture], _ask: Ask) -> ShownPictures:
    return ShownPictures("[Pictures cannot be shown here.]")


class ToolContext(Struct, frozen=True):
    """What a tool may use while it runs one call."""

    key: str
    """Unique key of the call, the same when it is resumed; also the key of its commands."""
    commands: Commands
    files: Files
    state: SessionState
    records: SessionRecords
    sandbox: Callable[[], Awaitable[SandboxInfo]]
    """The sandbox of commands; claimed if necessary."""
    decision: Decision | None
    """A person's decision about the call; None if nobody was asked yet."""
    progress: Callable[[str], None]
    """Shows live output to the user; never blocks and may drop output."""
    place: Callable[[], SandboxInfo] = SandboxInfo
    """The sandbox of the call's commands and files so far."""
    news: Callable[[], str] = str
    caller: Caller = Caller()
    decided_on: str = ""
    """The binding that the person was shown when deciding."""
    answer: str = ""
    unattended: Unattended | None = None
    """What happens to questions when nobody is there to answer; None if somebody is."""
    skills: ProfileSkills | None = None
    subagents: Subagents | None = None
    ask: Ask = _nobody
    """Asks a model outside the conversation."""
    show: Callable[[Sequence[Picture], Ask], Awaitable[ShownPictures]] = _unshown
    """Puts pictures into the workspace and shows them to the model."""
    spend: PaidCall = _nobody
    """Makes another paid call."""
    inner: "InnerCalls | None" = None
    """Makes tool calls on behalf of this call."""
    conversation: Sequence[bytes] = ()
    """The messages before the call, as they are stored, without prompt and summary."""

    @property
    def library(self) -> ProfileSkills:
        """The caller's skill library; ToolFailed if there is none."""
        if self.skills is None:
            raise ToolFailed("Skills are not available here.")
        return self.skills

    @property
    def can_ask(self) -> bool:
        """Whether somebody may answer a question, now or later."""
        return self.unattended in (None, Unattended.WAIT)


class InnerCalls(Protocol):
    """Tool calls made by another tool call, each checked and journaled like any call."""

    def functions(self) -> Mapping[str, list[str]]: ...

    async def call(self, number: int, name: str, arguments_json: str) -> ToolResult: ...

    def question(self, name: str) -> PendingCall: ...

    def decided(self, question: PendingCall) -> Decided: ...

    async def ask(self, number: int, question: str, choices: Sequence[str]) -> str | None: ...


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
        """The id of the tool's toolset."""
        ...

    @property
    def arguments(self) -> type[ToolArguments]:
        """The pydantic model of the arguments; its docstring is the tool's description."""
        ...

    def effect(self, arguments: A_contra) -> Effect:
        """What to do with a call that may or may not have run."""
        ...

    def writes(self, arguments: A_contra) -> frozenset[str]:
        """What the call changes, such as paths; calls that share one run one after the other."""
        ...

    async def run(self, arguments: A_contra, context: ToolContext) -> ToolResult:
        """Run the call."""
        ...


class UsualTool(Generic[A_contra]):
    """A tool whose calls all have the same effect and writes."""

    name: str
    toolset: str
    arguments: type[ToolArguments]
    usual_effect = Effect.UNSAFE
    usual_writes: frozenset[str] = frozenset()

    def effect(self, arguments: A_contra) -> Effect:
        return self.usual_effect

    def writes(self, arguments: A_contra) -> frozenset[str]:
        return self.usual_writes


class DescribedTool(UsualTool[A_contra]):
    """A tool whose description and schema of arguments come from elsewhere."""

    description: str
    parameters: str


class Wrapper(UsualTool[A]):
    """Wraps another tool; subclasses provide `run`."""

    def __init__(self, inner: Tool[A]) -> None:
        self.name = inner.name
        self.toolset = inner.toolset
        self.arguments = inner.arguments
        self._inner = inner

    def effect(self, arguments: A) -> Effect:
        return self._inner.effect(arguments)

    def writes(self, arguments: A) -> frozenset[str]:
        return self._inner.writes(arguments)
