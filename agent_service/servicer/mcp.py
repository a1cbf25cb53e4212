"""McpService."""

from agent_service.records.mcp import difference
from agent_service.servicer.fields import Context, profile_of
from agent_service.tools.base import ToolFailed
from agent_service.tools.mcp.servers import Servers, ServerState
from hermes.agent.v1 import mcp_pb2 as pb
from hermes.agent.v1.mcp_pb2_grpc import McpServiceServicer
from services.errors import FailedPrecondition, NotFound
from services.redaction.redactor import Redactor


class McpServicer(McpServiceServicer):
    """Serves the list of MCP servers, and tests them."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def ListMcpServers(
        self, request: pb.ListMcpServersRequest, context: Context
    ) -> pb.ListMcpServersResponse:
        states = await self._servers.states(profile_of(request.profile))
        return pb.ListMcpServersResponse(servers=map(self._server, states))

    async def TestMcpServer(
        self, request: pb.TestMcpServerRequest, context: Context
    ) -> pb.TestMcpServerResponse:
        profile, name = profile_of(request.profile), request.name
        if name not in self._servers.configured:
            raise NotFound(f"there is no MCP server {name!r}; hermes mcp list shows them")
        try:
            before, now = await self._servers.test(profile, name, accepts=request.accept_changes)
        except ToolFailed as error:
            raise FailedPrecondition(str(error)) from None
        return pb.TestMcpServerResponse(
            server=self._server(ServerState(name, now)),
            changes=difference(before, now) if before.digest != now.digest else "",
        )

    def _server(self, state: ServerState) -> pb.McpServer:
        configured = self._servers.configured[state.name]
        target = configured.url.partition("?")[0] or " ".join(configured.argv)
        return pb.McpServer(
            name=state.name,
            target=Redactor().redact(target),
            problem=state.problem,
            tools=[tool.name for tool in state.catalog.tools],
            prompts=[prompt.name for prompt in state.catalog.prompts],
            has_resources=state.catalog.has_resources,
        )
