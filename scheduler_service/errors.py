"""What can go wrong in the scheduler.

ScheduleError     a schedule was not understood, or would never fire
"""

EXAMPLES = '"in 2 hours", "every weekday at 9:00", "0 9 * * mon-fri"'
_QUOTED_CHARS = 80


class ScheduleError(ValueError):
    """A schedule that cannot be used: quotes what was not understood and shows three that can."""

    def __init__(self, text: str, problem: str) -> None:
        quoted = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
        super().__init__(f'cannot use the schedule "{quoted}": {problem}; examples: {EXAMPLES}')
