"""Tool calls on their way through a turn."""

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
    """Unique over all turns; the model's own call ids may repeat."""
    call: ToolCall
    sequence: int
    """Of its step in the turn."""
    message_sequence: int
    """Of its result in the session; reserved, so that results keep the order of the calls."""
    state: StepState = StepState.INTENT
    resumed: bool = False
    """An earlier owner of the turn may have begun it."""


class Decided(Struct, frozen=True):
    """What a person has decided on a call."""

    decision: Decision | None = None
    """None where nobody was asked."""
    binding: str = ""
    """Exactly what they have decided on."""
    answer: str = ""
    """What they have answered in words."""


SCRIPT = "script"
"""The name by which people are told of a turn's script, and asked."""


class PendingScript(Struct, frozen=True):
    """A turn's script whose result is not committed yet; the turn's first step."""

    call: PendingCall
    script: Script
    prompt: str
    """What the model is asked once it has run."""
