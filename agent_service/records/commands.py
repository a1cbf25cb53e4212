"""Facts that the loop yields: the journal commits each batch in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from agent_service.records.calls import PendingCall
from agent_service.records.compression import Compression
from agent_service.records.events import TurnFinished
from agent_service.records.model import ModelMessage
from agent_service.records.requests import Switched
from agent_service.records.sandbox import NOWHERE, SandboxInfo
from agent_service.records.usage import Usage


class ModelAnswered(Struct, frozen=True):
    """A model call has finished; its tool calls may run once this is committed."""

    step: int
    message: ModelMessage
    tokens_per_byte: float = 0.0
    """The ratio in the request as the provider counted it; 0 if unknown."""
    window_tokens: int = 0


class Prompted(Struct, frozen=True):
    """A message in the user's place that no user has sent."""

    text: str


class FilesRead(Struct, frozen=True):
    """The files of the turn's message are read; the message can be stored."""

    content: str | Sequence[Mapping[str, Any]]
    """The message's text, or its parts."""
    notices: tuple[str, ...] = ()


class Recalled(Struct, frozen=True):
    """A memory recalled something for the turn's message, which is sent with it."""

    message: bytes


class ToolDispatched(Struct, frozen=True):
    """A call that must never run twice is about to run."""

    call: PendingCall


class _Returned(Struct, frozen=True):
    call: PendingCall
    text: str
    is_error: bool = False
    exit_code: int | None = None
    place: SandboxInfo = NOWHERE
    duration_ms: int = 0
    uncertain: bool = False
    """It is not known what it did."""
    notices: tuple[str, ...] = ()


class ToolReturned(_Returned, frozen=True):
    """A tool call has its result; the next model call may use it once this is committed."""

    parts: Sequence[Mapping[str, Any]] = ()
    failures_in_row: int = 0
    """The number of successive messages in which the call failed like this; 0 if it did not fail.
    """


class ScriptReturned(_Returned, frozen=True):
    """The turn's script has ended or was not run; the consequences are committed with it."""


class ApprovalNeeded(Struct, frozen=True):
    """A tool call waits for a person's decision on `subject`, or answer in words."""

    call: PendingCall
    subject: str
    binding: str = ""
    choices: tuple[str, ...] = ()


class ContextCompressed(Struct, frozen=True):
    """The conversation was shortened; the next model call is based on this."""

    compression: Compression
    messages: tuple[bytes, ...]
    before_tokens: int
    after_tokens: int
    helped: bool
    """Whether it is short enough now."""
    usage: Usage
    model: str = ""


class Consulted(Struct, frozen=True):
    """A model was called for something other than an answer of the conversation."""

    reservation: str | None
    """The reservation to release; None while the call goes on."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)


class Denied(Struct, frozen=True):
    """Words of somebody who may not use these slash commands have joined the turn."""

    commands: frozenset[str]


Fact = (
    ModelAnswered
    | Denied
    | Switched
    | Prompted
    | FilesRead
    | Recalled
    | ToolDispatched
    | ToolReturned
    | ScriptReturned
    | ApprovalNeeded
    | Consulted
    | ContextCompressed
    | TurnFinished
)
