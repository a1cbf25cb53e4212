"""ToolCatalogService."""

from collections.abc import Sequence

from agent_service.servicer.fields import Context, profile_of
from agent_service.tools.listing import Listed
from agent_service.toolsets import TOOLSETS, ToolsetPolicy
from hermes.agent.v1 import tool_catalog_pb2 as pb
from hermes.agent.v1 import tool_catalog_pb2_grpc
from services.errors import InvalidArgument

MAX_PLATFORM_CHARS = 64


class ToolCatalogServicer(tool_catalog_pb2_grpc.ToolCatalogServiceServicer):
    """Serves the list of tools."""

    def __init__(self, tools: Sequence[Listed], toolsets: ToolsetPolicy) -> None:
        self._tools = tools
        self._toolsets = toolsets

    async def ListTools(
        self, request: pb.ListToolsRequest, context: Context
    ) -> pb.ListToolsResponse:
        """Lists every tool, as messages of a platform have it, or of none."""
        profile, platform = profile_of(request.profile), request.platform
        if len(platform) > MAX_PLATFORM_CHARS:
            fields = {"platform": f"at most {MAX_PLATFORM_CHARS} characters"}
            raise InvalidArgument("the platform's name is too long", fields=fields)
        tools = [self._described(listed, profile, platform) for listed in self._tools]
        return pb.ListToolsResponse(tools=tools, toolsets=TOOLSETS)

    def _described(self, listed: Listed, profile: str, platform: str) -> pb.ToolInfo:
        toolset = listed.tool.toolset
        turned_off = self._toolsets.why_off(toolset, profile, platform)
        is_on = listed.is_on and not turned_off
        elsewhere = self._toolsets.platforms() if is_on and not platform else ()
        off = {name: self._toolsets.why_off(toolset, profile, name) for name in elsewhere}
        return pb.ToolInfo(
            name=listed.tool.name,
            toolset=toolset,
            summary=listed.summary,
            enabled=is_on,
            missing_settings=listed.missing,
            reason=turned_off or listed.reason,
            off_on_platforms={name: why for name, why in off.items() if why},
        )
