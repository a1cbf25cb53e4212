"""ToolCatalogService."""

from collections.abc import Sequence
from typing import Any

import grpc.aio

from agent_service.tools.listing import Listed
from hermes.agent.v1 import tool_catalog_pb2, tool_catalog_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class ToolCatalogServicer(tool_catalog_pb2_grpc.ToolCatalogServiceServicer):
    """Serves the list of tools."""

    def __init__(self, tools: Sequence[Listed]) -> None:
        self._tools = tools

    async def ListTools(
        self, request: tool_catalog_pb2.ListToolsRequest, context: Context
    ) -> tool_catalog_pb2.ListToolsResponse:
        """Lists every tool."""
        return tool_catalog_pb2.ListToolsResponse(
            tools=[
                tool_catalog_pb2.ToolInfo(
                    name=listed.tool.name,
                    toolset=listed.tool.toolset,
                    summary=listed.summary,
                    enabled=listed.is_on,
                    missing_settings=listed.missing,
                    reason=listed.reason,
                )
                for listed in self._tools
            ]
        )
