"""Notes with the session that the model has kept something for later ones."""

from agent_service.tools.base import Tool, ToolContext, ToolResult
from agent_service.tools.wrapper import A, Wrapper

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
