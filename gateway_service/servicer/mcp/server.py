"""The MCP server of each tier, served on standard input and output, and over HTTP."""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from typing import Any

import grpc.aio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, ToolAnnotations
from pydantic import ValidationError

from gateway_service.servicer.http.exchange import Call, Reply, key_of
from gateway_service.servicer.mcp.tools import Deliver, HermesTools, Json
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import HermesError, Unauthenticated, message_of
from services.rpc.channels import Channels

PATH = "/mcp"
TIERS = ("read", "operate", "own")
"""Each has the tools of those before it as well."""
_TOOLS = {
    "read": (
        *("sessions_list", "sessions_search", "session_read", "memory_read", "skills_list"),
        *("skill_read", "jobs_list", "approvals_list", "turn_follow"),
    ),
    "operate": ("ask", "turn_stop", "question_answer", "job_run", "message_send"),
    "own": ("approval_decide", "memory_change", "job_add", "job_remove", "session_delete"),
}
_INSTRUCTIONS = (
    "Hermes is its user's own agent, with a sandbox, a memory, skills and scheduled jobs. Give it "
    "tasks with ask. A turn that takes long goes on: follow it with turn_follow."
)


def server_of(tools: HermesTools, tier: str) -> MCPServer[Any]:
    """Return the server with the tools of a tier."""
    server = MCPServer[Any]("hermes", title="Hermes", instructions=_INSTRUCTIONS)
    for name in TIERS[: TIERS.index(tier) + 1]:
        annotations = ToolAnnotations(
            read_only_hint=name == "read", destructive_hint=name == "own", open_world_hint=False
        )
        for tool in _TOOLS[name]:
            bound = _reporting(getattr(tools, tool))
            server.add_tool(bound, annotations=annotations, structured_output=True)
    return server


async def serve_stdio(channels: Channels, profile: str, tier: str) -> None:
    """Serve a tier on standard input and output until that ends."""
    deliver: Deliver = DeliveryServiceStub(channels.to("gateway")).Deliver
    served: Any = server_of(HermesTools(channels, deliver, profile), tier)
    server = served._lowlevel_server  # noqa: SLF001 - run_stdio_async drops what is not JSON
    heard, taken = create_context_streams[SessionMessage | Exception](0)
    async with stdio_server() as (received, sent), asyncio.TaskGroup() as tasks:
        tasks.create_task(_pass_on(received, heard, sent))
        await server.run(taken, sent, server.create_initialization_options())


async def _pass_on(received: Any, heard: Any, sent: Any) -> None:
    """Pass messages on to the server, and answer those that are none with an error."""
    async with heard:
        async for message in received:
            if isinstance(message, SessionMessage):
                await heard.send(message)
                continue
            is_json = isinstance(message, ValidationError) and all(
                problem["type"] != "json_invalid" for problem in message.errors()
            )
            error = (
                ErrorData(code=INVALID_REQUEST, message="This is no JSON-RPC message.")
                if is_json
                else ErrorData(code=PARSE_ERROR, message="This is not JSON.")
            )
            await sent.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))


class McpEndpoint:
    """Serves MCP over HTTP, each key its tier, without sessions."""

    def __init__(self, keys: Mapping[str, str], tools: HermesTools) -> None:
        """`keys` are the tiers' keys; a tier without one is not served."""
        self._keys = keys
        self._apps: dict[str, Any] = {}
        self._tools = tools

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve while inside."""
        async with AsyncExitStack() as stack:
            for tier in self._keys:
                server = server_of(self._tools, tier)
                # The key is the protection, also against pages that rebind a name of theirs.
                server.streamable_http_app(
                    streamable_http_path=PATH,
                    json_response=True,
                    stateless_http=True,
                    transport_security=TransportSecuritySettings(
                        enable_dns_rebinding_protection=False
                    ),
                )
                manager = server.session_manager
                await stack.enter_async_context(manager.run())
                self._apps[tier] = manager.handle_request
            yield

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthenticated unless a request has the key of a tier."""
        self._tier(headers)

    async def handle(self, call: Call) -> Reply:
        """Answer a request."""
        return await _answer(self._apps[self._tier(call.headers)], call)

    def _tier(self, headers: Mapping[str, str]) -> str:
        given, found = key_of(headers).encode(), ""
        for tier, key in self._keys.items():
            found = tier if hmac.compare_digest(given, key.encode()) else found
        if not found:
            raise Unauthenticated("send a key of the MCP server as Authorization: Bearer KEY")
        return found


async def _answer(app: Any, call: Call) -> Reply:
    """Return what an ASGI application answers."""
    head: dict[str, Any] = {}
    body, is_read = bytearray(), False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()  # a client that leaves cancels the handler
        is_read = True
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            head.update(message)
        else:
            body.extend(message.get("body", b""))

    headers = [(name.encode("latin-1"), it.encode("utf-8")) for name, it in call.headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
    }
    await app(scope, receive, send)
    kinds = [it.decode() for name, it in head["headers"] if name.lower() == b"content-type"]
    return Reply(bytes(body), head["status"], content_type=(*kinds, "text/plain")[0].split(";")[0])


def _reporting(tool: Callable[..., Awaitable[Json]]) -> Callable[..., Awaitable[Json]]:
    """Report failures of the services as errors of the tool."""

    @wraps(tool)
    async def call(**arguments: Any) -> Json:
        try:
            return await tool(**arguments)
        except grpc.aio.AioRpcError as error:
            raise ToolError(message_of(error)) from error
        except HermesError as error:
            raise ToolError(error.message) from error

    return call
