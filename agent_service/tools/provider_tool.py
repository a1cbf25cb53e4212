"""A tool of an external memory provider."""

from typing import Any

from agent_service.profiles.memory.provider import (
    TOOL_S,
    ExternalMemory,
    ProviderFailed,
    ProviderTool,
    Scope,
)
from agent_service.tools.base import Effect, ToolContext, ToolFailed, ToolResult, UsualTool
from agent_service.tools.guards.taint import fenced


class ProviderCall(UsualTool[Any]):
    """Calls a provider, whose answers are data."""

    def __init__(self, external: ExternalMemory, tool: ProviderTool) -> None:
        self.name = tool.name
        self.toolset = external.name
        self.arguments = tool.arguments
        self.usual_effect = Effect.UNSAFE if tool.saves else Effect.PURE
        self._external = external
        self._tool = tool

    async def run(self, arguments: Any, context: ToolContext) -> ToolResult:
        if not context.caller.is_private:
            raise ToolFailed(f"Others read this chat, so {self._external.name} is not used here.")
        scope = Scope(context.caller.profile, context.caller.session_id)
        external, tool = self._external, self._tool
        try:
            text = await external.call(lambda: tool.run(scope, arguments), TOOL_S)
        except ProviderFailed as error:
            raise ToolFailed(str(error)) from error
        if tool.saves:
            return ToolResult(text)
        return ToolResult(fenced(await external.cleaned(text), external.name))
