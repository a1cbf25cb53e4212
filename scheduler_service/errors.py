"""The scheduler's own branches of the error tree.

HermesError
├── InvalidArgument
│   └── ScheduleError     a schedule was not understood, or would never fire
└── CallRefused           another service will never do what it was asked for
"""

from collections.abc import Iterable
from typing import ClassVar

from services.errors import HermesError, InvalidArgument, Reason

EXAMPLES = '"in 2 hours", "every weekday at 9:00", "0 9 * * mon-fri"'
_QUOTED_CHARS = 80


class ScheduleError(InvalidArgument):
    """An unusable schedule; the message quotes the problem and shows three valid examples."""

    default_reason: ClassVar[Reason] = Reason.SCHEDULE_INVALID

    def __init__(self, text: str, problem: str) -> None:
        quoted = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
        super().__init__(
            f'cannot use the schedule "{quoted}": {problem}; examples: {EXAMPLES}',
            fields={"schedule": problem},
        )


class CallRefused(HermesError):
    """Another service refused a call for good."""


def attack(families: Iterable[str]) -> str:
    """Return the reason for not running a job whose prompt looks like an attack."""
    return f"its prompt looks like an attack ({', '.join(families)}); say it in other words"
