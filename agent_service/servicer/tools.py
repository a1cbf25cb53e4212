"""ToolCatalogService."""

from collections.abc import Sequence
from typing import Any

import grpc.aio

from agent_service.convert.common import profile_of
from agent_service.tools.listing import Listed
from agent_service.toolsets import TOOLSETS, ToolsetPolicy
from hermes.agent.v1 import tool_catalog_pb2, tool_catalog_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class ToolCatalogServicer(tool_catalog_pb2_grpc.ToolCatalogServiceServicer):
    """Serves the list of tools."""

    def __init__(self, tools: Sequence[Listed], toolsets: ToolsetPolicy) -> None:
        self._tools = tools
        self._toolsets = toolsets

    async def ListTools(
        self, request: tool_catalog_pb2.ListToolsRequest, context: Context
    ) -> tool_catalog_pb2.ListToolsResponse:
        """Lists every tool."""
        profile = profile_of(request.profile)
        tools = [self._described(listed, profile) for listed in self._tools]
        return tool_catalog_pb2.ListToolsResponse(tools=tools, toolsets=TOOLSETS)

    def _described(self, listed: Listed, profile: str) -> tool_catalog_pb2.ToolInfo:
        turned_off = self._toolsets.why_off(listed.tool.toolset, profile)
        return tool_catalog_pb2.ToolInfo(
            name=listed.tool.name,
            toolset=listed.tool.toolset,
            summary=listed.summary,
            enabled=listed.is_on and not turned_off,
            missing_settings=listed.missing,
            reason=turned_off or listed.reason,
        )
