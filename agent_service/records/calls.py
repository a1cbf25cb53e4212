"""Pending tool calls of a turn."""

from enum import StrEnum

from msgspec import Struct

from agent_service.records.events import Decision
from agent_service.records.model import ToolCall
from agent_service.records.requests import Script


class StepState(StrEnum):
    """How far a step is known to have come."""

    INTENT = "INTENT"
    DISPATCHED = "DISPATCHED"
    DONE = "DONE"
    FAILED = "FAILED"
    UNCERTAIN = "UNCERTAIN"


class PendingCall(Struct, frozen=True):
    """A tool call whose result is not committed yet."""

    key: str
    """Unique across turns; the model's own call ids may repeat."""
    call: ToolCall
    sequence: int
    """The number of its step in the turn."""
    message_sequence: int
    """The number of its result in the session; reserved, so that results keep the order of calls.
    """
    state: StepState = StepState.INTENT
    resumed: bool = False
    """An earlier owner of the turn may have started it."""


class Decided(Struct, frozen=True):
    """A person's decision on a call."""

    decision: Decision | None = None
    """None if nobody was asked."""
    binding: str = ""
    """The exact subject of the decision."""
    answer: str = ""


SCRIPT = "script"
"""The tool name under which a turn's script is shown and approved."""


class PendingScript(Struct, frozen=True):
    """A turn's script, its first step, whose result is not committed yet."""

    call: PendingCall
    script: Script
    prompt: str
    """The model's prompt after the script has run."""
