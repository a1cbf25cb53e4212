"""What happens in a turn, as the loop yields it and as watchers see it.

A `Fact` is yielded by the loop and is committed by the journal before the loop goes on. It becomes
one or more durable `Event`s with a sequence. `Live` events are only for those who watch.
"""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from agent_service.records.usage import Usage


class Decision(StrEnum):
    """How an approval ended."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    ANSWERED = "answered"
    """Of a question in words."""
    EXPIRED = "expired"


# Live events


class _Delta(Struct, frozen=True):
    text: str
    step: int = 0
    """The model call of the turn, from 1; models leave it out."""
    offset: int = 0
    """How many characters of the step came before."""


class TextDelta(_Delta, frozen=True):
    """More text of the answer."""


class ReasoningDelta(_Delta, frozen=True):
    """More of the model's reasoning."""


class TextSnapshot(Struct, frozen=True):
    """All text of the running model call so far, for a watcher that joins late."""

    step: int
    text: str
    reasoning: str


class ToolProgress(Struct, frozen=True):
    """Output of a running tool."""

    call_id: str
    text: str


class Notice(Struct, frozen=True):
    """Something that a person is told, such as a retry."""

    text: str


Live = TextDelta | ReasoningDelta | TextSnapshot | ToolProgress | Notice


# Durable events


class _Durable(Struct, frozen=True, tag=True):
    """An event that is stored, by the name of its kind."""


class TurnStarted(_Durable, frozen=True):
    """The turn runs."""

    session_id: str
    model: str


class TextFinished(_Durable, frozen=True):
    """A model call has finished with this text."""

    step: int
    text: str
    tool_call_count: int


class Noted(_Durable, frozen=True):
    """Something about the session that is to be read with the answer."""

    text: str


class UsageReported(_Durable, frozen=True):
    """A model call's usage."""

    step: int
    usage: Usage


class ToolStarted(_Durable, frozen=True):
    """A tool starts."""

    call_id: str
    name: str
    arguments_json: str
    step: int


class ToolFinished(_Durable, frozen=True):
    """A tool has finished; `preview` is what the model was told, cut from the middle."""

    call_id: str
    name: str
    is_error: bool
    exit_code: int | None
    backend: str
    duration_ms: int
    preview: str
    isolation: str = ""
    sandbox_id: str = ""


class Compressed(_Durable, frozen=True):
    """The conversation is sent shorter from now on; about how many tokens it had and has."""

    before_token_count: int
    after_token_count: int


CLARIFY = "clarify"
"""The tool whose questions are answered in words."""


class ApprovalRequested(_Durable, frozen=True):
    """The turn waits for a person's decision, or answer in words, until `expires_at`."""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    """What is decided on, or the question."""
    expires_at: datetime
    binding: str = ""
    """What an allowance for longer is bound to; empty where there can be none."""
    choices: tuple[str, ...] = ()
    """Answers to choose from."""


class ApprovalResolved(_Durable, frozen=True):
    """A decision was taken, or nobody took one in time."""

    approval_id: str
    call_id: str
    tool: str
    decision: Decision
    decided_by: str
    answer: str = ""


class Outcome(StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LIMIT_REACHED = "limit_reached"
    NEEDS_REVIEW = "needs_review"


class TurnFinished(_Durable, frozen=True):
    """The turn has ended; `text` is the answer or what there was of it, `message` why it ended or
    what it may have left running."""

    outcome: Outcome
    text: str = ""
    message: str = ""
    reason: str = ""
    """ErrorReason of a failure, by name without its prefix."""
    retryable: bool = False
    cause: str = ""
    survivor_count: int = 0
    usage: Usage = field(default_factory=Usage)


Durable = (
    TurnStarted
    | TextFinished
    | Noted
    | UsageReported
    | ToolStarted
    | ToolFinished
    | Compressed
    | ApprovalRequested
    | ApprovalResolved
    | TurnFinished
)
Event = Live | Durable


class Recorded(Struct, frozen=True):
    """An event as watchers get it: `sequence` is 0 for a live one."""

    sequence: int
    time: datetime
    attempt: int
    event: Event


PREVIEW_CHARS = 4000


def preview(text: str) -> str:
    """At most PREVIEW_CHARS characters of a result, cut from the middle."""
    if len(text) <= PREVIEW_CHARS:
        return text
    half = PREVIEW_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
