"""ToolCatalogService."""

from collections.abc import Sequence
from typing import Any

import grpc.aio

from agent_service.convert.common import profile_of
from agent_service.tools.listing import Listed
from agent_service.toolsets import TOOLSETS, ToolsetPolicy
from hermes.agent.v1 import tool_catalog_pb2, tool_catalog_pb2_grpc
from services.errors import InvalidArgument

MAX_PLATFORM_CHARS = 64

Context = grpc.aio.ServicerContext[Any, Any]


class ToolCatalogServicer(tool_catalog_pb2_grpc.ToolCatalogServiceServicer):
    """Serves the list of tools."""

    def __init__(self, tools: Sequence[Listed], toolsets: ToolsetPolicy) -> None:
        self._tools = tools
        self._toolsets = toolsets

    async def ListTools(
        self, request: tool_catalog_pb2.ListToolsRequest, context: Context
    ) -> tool_catalog_pb2.ListToolsResponse:
        """Lists every tool, as messages of a platform have it, or of none."""
        profile, platform = profile_of(request.profile), request.platform
        if len(platform) > MAX_PLATFORM_CHARS:
            fields = {"platform": f"at most {MAX_PLATFORM_CHARS} characters"}
            raise InvalidArgument("the platform's name is too long", fields=fields)
        tools = [self._described(listed, profile, platform) for listed in self._tools]
        return tool_catalog_pb2.ListToolsResponse(tools=tools, toolsets=TOOLSETS)

    def _described(self, listed: Listed, profile: str, platform: str) -> tool_catalog_pb2.ToolInfo:
        toolset = listed.tool.toolset
        turned_off = self._toolsets.why_off(toolset, profile, platform)
        is_on = listed.is_on and not turned_off
        elsewhere = self._toolsets.platforms() if is_on and not platform else ()
        off = {name: self._toolsets.why_off(toolset, profile, name) for name in elsewhere}
        return tool_catalog_pb2.ToolInfo(
            name=listed.tool.name,
            toolset=toolset,
            summary=listed.summary,
            enabled=is_on,
            missing_settings=listed.missing,
            reason=turned_off or listed.reason,
            off_on_platforms={name: why for name, why in off.items() if why},
        )
