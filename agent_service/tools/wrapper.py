"""Tools that are another tool but for what happens around a call."""

from typing import TypeVar

from agent_service.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult, UsualTool

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


MEMORY_KEPT = "memory_kept"
SKILL_KEPT = "skill_kept"
"""Names of the session's values: the key of the call that did so last."""


class Kept(Wrapper[A]):
    """A tool that keeps something, each call of which that has done so is noted."""

    def __init__(self, inner: Tool[A], name: str) -> None:
        super().__init__(inner)
        self._noted_as = name

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Run the inner tool, then note it; a call that is made again notes it again."""
        result = await self._inner.run(arguments, context)
        if not result.is_error:
            await context.state.put(self._noted_as, context.key)
        return result
