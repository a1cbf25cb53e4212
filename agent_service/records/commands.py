"""What the loop yields to be committed: each batch of facts is one transaction of the journal."""

from msgspec import Struct, field

from agent_service.records.calls import PendingCall
from agent_service.records.compaction import Compaction
from agent_service.records.events import TurnFinished
from agent_service.records.model import ModelMessage
from agent_service.records.requests import Switched
from agent_service.records.sandbox import NOWHERE, SandboxInfo
from agent_service.records.usage import Usage


class ModelAnswered(Struct, frozen=True):
    """A model call has finished; its tool calls, if any, may run once this is committed."""

    step: int
    message: ModelMessage
    tokens_per_byte: float = 0.0
    """Of what it was asked, as its provider has counted; 0 is not known."""


class Prompted(Struct, frozen=True):
    """The model is told something that nobody has said, in the place of the user."""

    text: str


class ToolDispatched(Struct, frozen=True):
    """A call that must never run twice is about to run."""

    call: PendingCall


class _Returned(Struct, frozen=True):
    """Something that was run has ended, or was not run."""

    call: PendingCall
    text: str
    is_error: bool = False
    exit_code: int | None = None
    place: SandboxInfo = NOWHERE
    duration_ms: int = 0
    uncertain: bool = False
    """It is not known what it has done."""
    notices: tuple[str, ...] = ()
    """What a person is to hear of it."""


class ToolReturned(_Returned, frozen=True):
    """A tool call has its result, which the next model call may use once this is committed."""

    failures_in_row: int = 0
    """In how many messages in a row the call has failed like this; 0 where it has not failed."""


class ScriptReturned(_Returned, frozen=True):
    """The turn's script has ended, or was not run; what comes of it is committed with it."""


class ApprovalNeeded(Struct, frozen=True):
    """A tool call goes on once a person has decided on `subject`, or has answered it in words."""

    call: PendingCall
    subject: str
    binding: str = ""
    choices: tuple[str, ...] = ()


class Compacted(Struct, frozen=True):
    """The conversation has been made shorter, as it is sent; the next model call rests on it."""

    compaction: Compaction
    messages: tuple[bytes, ...]
    before_tokens: int
    after_tokens: int
    helped: bool
    """Whether it is short enough now."""
    usage: Usage
    model: str = ""
    """What was asked for notes."""


class Consulted(Struct, frozen=True):
    """A model was asked for what is no answer of the conversation, or has given none."""

    reservation: str | None
    """The held part of the budget that is given back; None while the call goes on."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)


class Denied(Struct, frozen=True):
    """What joins the turn are words of somebody who may not say these slash commands."""

    commands: frozenset[str]


Fact = (
    ModelAnswered
    | Denied
    | Switched
    | Prompted
    | ToolDispatched
    | ToolReturned
    | ScriptReturned
    | ApprovalNeeded
    | Consulted
    | Compacted
    | TurnFinished
)
