"""What happens in a turn, as far as a chat shows it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Decision(StrEnum):
    """What a person decides on an approval."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    EXPIRED = "expired"
    """Nobody decided in time."""


@dataclass(frozen=True, slots=True)
class TextChanged:
    """More text of a model call, or all that there is of it."""

    step: int
    offset: int
    """Where it starts within the call's text, in characters."""
    text: str


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool runs."""

    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The turn waits for a decision."""

    approval_id: str
    tool: str
    subject: str
    can_be_always: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """It waits no more."""

    approval_id: str
    decision: Decision
    decided_by: str


@dataclass(frozen=True, slots=True)
class Questioned:
    """The turn waits for an answer in words."""

    clarification_id: str
    question: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """It waits no more."""

    clarification_id: str
    answer: str
    answered_by: str
    expired: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over."""

    text: str
    """The answer, or what there was of it."""
    remark: str = ""
    """Why there is no more, in a sentence; empty where it is complete."""
    notes: tuple[str, ...] = ()
    """What is to be read with it."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something to be read with the answer."""

    text: str


TurnEvent: TypeAlias = (
    Noted | TextChanged | ToolBegan | Asked | Decided | Questioned | Answered | Ended
)
