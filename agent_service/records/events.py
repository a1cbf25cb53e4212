"""Events of a turn, as the loop yields them and as watchers see them.

The loop yields `Fact`s, and the journal commits each before the loop goes on. A fact becomes one or
more durable, numbered `Event`s. `Live` events are only for current watchers.
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
    NOBODY = "nobody"
    ANSWERED = "answered"
    EXPIRED = "expired"


# Live events


class _Delta(Struct, frozen=True):
    text: str
    step: int = 0
    """The number of the model call in the turn, from 1; models leave it out."""
    offset: int = 0
    """The number of characters of the step before this text."""


class TextDelta(_Delta, frozen=True):
    """More text of the answer."""


class ReasoningDelta(_Delta, frozen=True):
    """More of the model's reasoning."""


class TextSnapshot(Struct, frozen=True):
    """All text of the running model call, for a watcher that joins late."""

    step: int
    text: str
    reasoning: str


class ToolProgress(Struct, frozen=True):
    """Output of a running tool."""

    call_id: str
    text: str


class PromptProgress(Struct, frozen=True):
    """How much of the prompt the model's server has read."""

    read_tokens: int
    total_tokens: int
    step: int = 0


class Notice(Struct, frozen=True):
    """A message for the person, such as about a retry."""

    text: str
    keeps_text: bool = False
    """Whether the text so far counts; else that of the step is void."""


Live = TextDelta | ReasoningDelta | TextSnapshot | ToolProgress | PromptProgress | Notice


# Durable events


class _Durable(Struct, frozen=True, tag=True):
    """A stored event, tagged with its kind."""


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
    """A note on the session to be shown with the answer."""

    text: str


class UsageReported(_Durable, frozen=True):
    """A model call's usage."""

    step: int
    usage: Usage
    window_tokens: int = 0


class ToolStarted(_Durable, frozen=True):
    """A tool starts."""

    call_id: str
    name: str
    arguments_json: str
    step: int


class ToolFinished(_Durable, frozen=True):
    """A tool has finished; `preview` is its result, cut in the middle."""

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
    """The conversation is sent shorter from now on; token counts are estimates."""

    before_token_count: int
    after_token_count: int


CLARIFY = "clarify"
"""The tool whose questions are answered in words."""


class ApprovalRequested(_Durable, frozen=True):
    """The turn waits until `expires_at` for a person's decision or answer in words."""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    """What to decide on, or the question."""
    expires_at: datetime
    binding: str = ""
    """What a lasting permission is bound to; empty if there can be none."""
    choices: tuple[str, ...] = ()


class ApprovalResolved(_Durable, frozen=True):
    """A decision was made, or the time ran out."""

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
    """The turn has ended.

    `text` is the answer as far as it came, `message` the reason or what may still be running.
    """

    outcome: Outcome
    text: str = ""
    message: str = ""
    reason: str = ""
    """The ErrorReason of a failure, without its prefix."""
    retryable: bool = False
    cause: str = ""
    retry_after_s: float | None = None
    """How long a failed model's provider asks to wait, if it says so."""
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
    """An event for watchers; `sequence` is 0 for a live event."""

    sequence: int
    time: datetime
    attempt: int
    event: Event


PREVIEW_CHARS = 4000


def preview(text: str) -> str:
    """Cut a result in the middle to at most PREVIEW_CHARS characters."""
    if len(text) <= PREVIEW_CHARS:
        return text
    half = PREVIEW_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
