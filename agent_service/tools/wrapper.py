"""Tools that are another tool but for what happens around a call."""

from typing import TypeVar

from agent_service.tools.base import Effect, Tool, ToolArguments, UsualTool

A = TypeVar("A", bound=ToolArguments)


class Wrapper(UsualTool[A]):
    """Has the name, arguments and effects of the tool inside it, and no `run` of its own."""

    def __init__(self, inner: Tool[A]) -> None:
        self.name = inner.name
        self.toolset = inner.toolset
        self.arguments = inner.arguments
        self._inner = inner

    def effect(self, arguments: A) -> Effect:
        """The inner tool's."""
        return self._inner.effect(arguments)

    def writes(self, arguments: A) -> frozenset[str]:
        """The inner tool's."""
        return self._inner.writes(arguments)
