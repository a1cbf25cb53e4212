"""What happens in a turn, as far as a chat shows it."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct


class Decision(StrEnum):
    """What a person decides on an approval."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    EXPIRED = "expired"
    """Nobody decided in time."""


class TextChanged(Struct, frozen=True):
    """More text of a model call, or all that there is of it."""

    step: int
    offset: int
    """Where it starts within the call's text, in characters."""
    text: str


class ToolBegan(Struct, frozen=True):
    """A tool runs."""

    name: str


class Asked(Struct, frozen=True):
    """The turn waits for a decision."""

    approval_id: str
    tool: str
    subject: str
    can_be_always: bool = False


class Decided(Struct, frozen=True):
    """It waits no more."""

    approval_id: str
    decision: Decision
    decided_by: str


class Questioned(Struct, frozen=True):
    """The turn waits for an answer in words."""

    clarification_id: str
    question: str
    choices: tuple[str, ...]


class Answered(Struct, frozen=True):
    """It waits no more."""

    clarification_id: str
    answer: str
    answered_by: str
    expired: bool


class Ended(Struct, frozen=True):
    """The turn is over."""

    text: str
    """The answer, or what there was of it."""
    remark: str = ""
    """Why there is no more, in a sentence; empty where it is complete."""
    notes: tuple[str, ...] = ()
    """What is to be read with it."""


class Noted(Struct, frozen=True):
    """Something to be read with the answer."""

    text: str


TurnEvent: TypeAlias = (
    Noted | TextChanged | ToolBegan | Asked | Decided | Questioned | Answered | Ended
)
