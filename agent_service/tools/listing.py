"""Tools as a person is shown them: with what those need that are not offered to the model."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from agent_service.tools.base import Tool
from agent_service.tools.schema import describe


class Listed(Struct, frozen=True):
    """A tool, and why it is not offered."""

    tool: Tool[Any]
    missing: tuple[str, ...] = ()
    """Names of settings of which one has to be set."""
    reason: str = ""
    """What else keeps it from being used; empty when nothing does."""

    @property
    def is_on(self) -> bool:
        """Whether models are offered it."""
        return not self.missing and not self.reason

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        description: str = describe(self.tool)["function"]["description"]
        return " ".join(description.partition("\n\n")[0].split())


def offered(listed: Sequence[Listed]) -> Sequence[Tool[Any]]:
    """The tools that models are offered."""
    return tuple(each.tool for each in listed if each.is_on)
