"""The seam between a tool that hands work over and the turns that do it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct


class NoSubagents(Exception):
    """Work cannot be handed over like this; the message says why."""


class Task(Struct, frozen=True):
    """A piece of work that is handed over."""

    goal: str
    context: str = ""


class Report(Struct, frozen=True):
    """What came of a task."""

    outcome: str
    """completed, failed, cancelled, limit_reached or needs_review."""
    text: str
    """The last message of who worked on it, or why there is none."""
    untrusted: tuple[str, ...] = ()
    """Where untrusted data came from that went into it."""


class Subagents(Protocol):
    """Works on tasks for one tool call."""

    @property
    def most(self) -> int:
        """How many tasks one call may hand over."""
        ...

    async def work(
        self,
        tasks: Sequence[Task],
        toolsets: Sequence[str],
        untrusted: Sequence[str],
        ended: Callable[[int, Report], None],
    ) -> list[Report]:
        """Have tasks done side by side, and say of each when it ends.

        `untrusted` says where untrusted data came from that the tasks may be made of.

        The call that is made again finds the tasks that it has handed over. NoSubagents when none
        of the toolsets may be used; empty means those of the caller.
        """
        ...
