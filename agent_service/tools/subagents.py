"""The interface between the delegation tool and the turns that do the work."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct


class NoSubagents(Exception):
    """Work cannot be delegated like this; the message says why."""


class Task(Struct, frozen=True):
    """A delegated task."""

    goal: str
    context: str = ""


class Report(Struct, frozen=True):
    """The outcome of a task."""

    outcome: str
    """completed, failed, cancelled, limit_reached or needs_review."""
    text: str
    """The last message of the turn, or why there is none."""
    untrusted: tuple[str, ...] = ()


class Subagents(Protocol):
    """Runs the tasks of one tool call."""

    @property
    def most(self) -> int: ...

    async def work(
        self,
        tasks: Sequence[Task],
        toolsets: Sequence[str],
        untrusted: Sequence[str],
        ended: Callable[[int, Report], None],
    ) -> list[Report]:
        """Run tasks in parallel, and report each when it ends; a repeated call finds its tasks.

        `untrusted` names sources of untrusted data in the tasks. Empty `toolsets` mean the
        caller's; NoSubagents if none of them may be used.
        """
        ...
