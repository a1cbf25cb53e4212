"""One connection to an MCP server. Imports the SDK, so it is imported late."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.auth import OAuthFlowError
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from msgspec import json
from pydantic import ValidationError

from agent_service.config.mcp import McpServer
from agent_service.records.mcp import PromptArgument, ServerCatalog, ServerPrompt, ServerTool
from agent_service.records.sandbox import SandboxUnavailable
from agent_service.security.fetch.destinations import FetchFailed, FetchRefused
from agent_service.tools.base import Effect, ToolFailed
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.mcp.names import model_names
from services.lifecycle import Workers, first_failure

MAX_TOOLS = 2_000
MAX_PAGES = 100
_PROMPT_NAME = re.compile(r"[\w./-]{1,64}")
"""Other names could pose as text of Hermes."""
_MARGIN_S = 5.0
"""How much later than Hermes the SDK gives up."""
_T = TypeVar("_T")
_FAILURES = (
    *(MCPError, OSError, TimeoutError, ValidationError, ValueError, RuntimeError),
    *(httpx2.HTTPError, FetchFailed, FetchRefused, SandboxUnavailable, OAuthFlowError),
    *(anyio.BrokenResourceError, anyio.ClosedResourceError, BaseExceptionGroup),
)
"""What servers and their connections fail with, alone or grouped."""

_log = logging.getLogger(__name__)

Dial = Callable[[Callable[[str], None]], AbstractAsyncContextManager[Any]]
"""Opens the streams of a server, given a function that is told how they ended."""


class RequestHandler(Protocol):
    """What a server may ask of the one who called it; raises what ends the call."""

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult: ...

    async def sample(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult: ...

    def progress(self, text: str) -> None: ...


class ServerFailed(Exception):
    """The server gave no answer; the message says why."""


class _Call:
    def __init__(self, handler: RequestHandler) -> None:
        self.handler = handler
        self.interrupted: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def interrupt(self, error: Exception) -> None:
        if not self.interrupted.done():
            self.interrupted.set_result(error)


_calling: ContextVar[_Call | None] = ContextVar("mcp_call", default=None)


class ServerConnection:
    """A client of a server; `run` owns it, other tasks call it."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        dial: Dial,
        screen: Callable[[ServerCatalog], Awaitable[ServerCatalog]],
    ) -> None:
        """`screen` removes from the server's descriptions what looks like an attack."""
        self._name = name
        self._server = server
        self._dial = dial
        self._screen = screen
        self._client: Client | None = None
        self._calls: set[_Call] = set()
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self.failure = ""
        """Why it is gone; empty while it is there."""
        self.is_stale = False
        """The server has said that its tools changed."""
        self.catalog = ServerCatalog()
        """What the server offers, as last listed."""
        self.started_at = self.last_used = asyncio.get_running_loop().time()

    @property
    def is_open(self) -> bool:
        return self._client is not None and not self._closing.is_set()

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def close(self) -> None:
        self._closing.set()

    async def run(self) -> None:
        """Hold the connection until it is closed or lost."""
        release = await asyncio.to_thread(version, "hermes-services")
        try:
            async with asyncio.timeout(self._server.connect_timeout) as limit:
                client = Client(
                    self._dial(self._lost),
                    elicitation_callback=self._elicit,
                    sampling_callback=self._sample,
                    message_handler=self._hear,
                    client_info=types.Implementation(name="hermes", version=release),
                )
                async with client:
                    # A server's schema may have a pattern that takes for ever.
                    client.session.validate_tool_result = _unvalidated
                    self.catalog = await self._list(client)
                    limit.reschedule(None)
                    self._client = client
                    self._opened.set()
                    await self._closing.wait()
        except _FAILURES as error:
            self.failure = self.failure or reason_of(error)
            _log.warning("the MCP server %s is gone: %s", self._name, self.failure)
        finally:
            self._client = None
            self._closing.set()
            self._opened.set()

    async def settled(self) -> None:
        """Wait until it is known whether it can be used."""
        await self._opened.wait()

    async def opened(self) -> None:
        """Wait until it can be used; ServerFailed if it cannot."""
        await self.settled()
        if not self.is_open:
            raise ServerFailed(self.failure or "the connection was closed")

    async def refresh(self) -> None:
        """List the tools again if the server has changed them."""
        if self.is_stale and self._client is not None:
            self.is_stale = False
            self.catalog = await self._asking(self._list(self._client))

    async def call_tool(
        self, tool: str, arguments: dict[str, Any], handler: RequestHandler
    ) -> types.CallToolResult:
        """The result of a call; raises what the handler raises, or ServerFailed."""
        limit_s = self._server.timeout

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            handler.progress(f"{self._name}: {message or 'at'} {share}\n")

        async def call(client: Client) -> types.CallToolResult:
            return await client.call_tool(
                tool,
                arguments,
                read_timeout_seconds=limit_s + _MARGIN_S,
                progress_callback=progress,
            )

        async def call_with_pages(client: Client) -> types.CallToolResult:
            try:
                return await call(client)
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED or not await self._show(error):
                    raise
                return await call(client)

        return await self._ask(handler, call_with_pages)

    async def get_prompt(
        self, name: str, arguments: dict[str, str], handler: RequestHandler
    ) -> types.GetPromptResult:
        return await self._ask(handler, lambda client: client.get_prompt(name, arguments))

    async def read_resource(self, uri: str, handler: RequestHandler) -> types.ReadResourceResult:
        return await self._ask(handler, lambda client: client.read_resource(uri))

    async def list_resources(
        self, handler: RequestHandler
    ) -> list[types.Resource | types.ResourceTemplate]:
        async def listed(client: Client) -> list[types.Resource | types.ResourceTemplate]:
            found: list[types.Resource | types.ResourceTemplate] = [
                one async for one in _pages(client.list_resources, lambda page: page.resources)
            ]
            templates = _pages(client.list_resource_templates, lambda page: page.resource_templates)
            try:
                return [*found, *[one async for one in templates]]
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:  # servers need not have templates
                    return found
                raise

        return await self._ask(handler, listed)

    async def _ask(self, handler: RequestHandler, ask: Callable[[Client], Awaitable[_T]]) -> _T:
        """Ask the server, whose own questions the handler answers."""
        client = self._client
        if client is None:
            raise ServerFailed(self.failure or "the connection was closed")
        call = _Call(handler)
        self._calls.add(call)
        token = _calling.set(call)
        try:
            async with Workers() as workers:
                asked = workers.start(f"call of {self._name}", _outcome(ask(client)))
                waits = {asked, call.interrupted}
                limit_s = self._server.timeout
                await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                if call.interrupted.done():
                    raise call.interrupted.result()
                if not asked.done():
                    raise ServerFailed(f"it did not answer within {limit_s:g} s")
                outcome = asked.result()
        finally:
            _calling.reset(token)
            self._calls.discard(call)
            self.last_used = asyncio.get_running_loop().time()
        if isinstance(outcome, BaseException):
            raise ServerFailed(self.failure or reason_of(outcome)) from outcome
        return outcome

    async def _asking(self, question: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(self._server.connect_timeout):
                return await question
        except _FAILURES as error:
            raise ServerFailed(self.failure or reason_of(error)) from error

    def _lost(self, why: str) -> None:
        """Note how its streams ended, unless it was closed before."""
        if not self._closing.is_set():
            self.failure = why
            self._closing.set()

    def _caller(self) -> _Call | None:
        """The call on whose behalf the server asks; None if that cannot be told."""
        known = _calling.get()
        if known in self._calls:
            return known
        return next(iter(self._calls)) if len(self._calls) == 1 else None

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        return await self._put(lambda it: it.elicit(params))

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        return await self._put(lambda it: it.sample(params))

    async def _show(self, error: MCPError) -> bool:
        """Ask the user to open the pages that a call needs first; return whether they did."""
        for page in UrlElicitationRequiredError.from_error(error.error).elicitations:
            result = await self._put(lambda it, page=page: it.elicit(page))
            if not isinstance(result, types.ElicitResult) or result.action != "accept":
                return False
        return True

    async def _put(self, ask: Callable[[RequestHandler], Awaitable[_T]]) -> _T | types.ErrorData:
        call = self._caller()
        if call is None:
            return _refusal("Several calls are under way, so nobody can be asked. Try again later.")
        try:
            return await ask(call.handler)
        except (DecisionRequired, ToolFailed) as error:
            call.interrupt(error)
            return _refusal("The call was ended.")

    async def _hear(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.is_stale = True

    async def _list(self, client: Client) -> ServerCatalog:
        """Everything that the server offers."""
        offers = client.server_capabilities
        tools: list[types.Tool] = []
        if offers.tools is not None:
            tools = [one async for one in _pages(client.list_tools, lambda page: page.tools)]
        prompts: list[types.Prompt] = []
        if offers.prompts is not None:
            prompts = [one async for one in _pages(client.list_prompts, lambda page: page.prompts)]
        if len(tools) > MAX_TOOLS:
            raise ServerFailed(f"it has more than {MAX_TOOLS:,} tools")
        wanted = {tool.name: tool for tool in tools if self._server.tools.allows(tool.name)}
        names = model_names(self._name, list(wanted))
        found = ServerCatalog(
            tuple(_tool(self._name, tool, names[name]) for name, tool in wanted.items()),
            tuple(_prompt(prompt) for prompt in prompts if _PROMPT_NAME.fullmatch(prompt.name)),
            has_resources=offers.resources is not None,
        )
        return await self._screen(found)


async def _unvalidated(name: str, result: types.CallToolResult) -> None:
    """Takes a result as it is, for a person's model to judge."""


async def _outcome(asked: Awaitable[_T]) -> _T | BaseException:
    """The answer, or the failure as a value."""
    try:
        return await asked
    except _FAILURES as error:
        return error


async def _pages(
    fetch: Callable[..., Awaitable[Any]], items: Callable[[Any], list[_T]]
) -> AsyncGenerator[_T]:
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await fetch(cursor=cursor, cache_mode="refresh")
        for item in items(page):
            yield item
        cursor = page.next_cursor
        if not cursor:
            return


def _tool(server: str, tool: types.Tool, name: str) -> ServerTool:
    hints = tool.annotations or types.ToolAnnotations()
    effect = Effect.UNSAFE
    if hints.read_only_hint:
        effect = Effect.PURE
    elif hints.idempotent_hint:
        effect = Effect.KEYED
    schema = json.encode(tool.input_schema, order="sorted").decode()
    about, is_closed = (tool.description or "").strip(), hints.open_world_hint is False
    return ServerTool(server, tool.name, name, str(effect), about, schema, is_closed)


def _prompt(prompt: types.Prompt) -> ServerPrompt:
    arguments = tuple(
        PromptArgument(one.name, one.description or "", required=bool(one.required))
        for one in prompt.arguments or ()
    )
    return ServerPrompt(prompt.name, (prompt.description or "").strip(), arguments)


def _refusal(text: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=text)


def reason_of(error: BaseException) -> str:
    """A failure in words."""
    error = first_failure(error)
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ValidationError):
        return "its answer is malformed"
    text = str(error).strip() or type(error).__name__
    return text[:1_000]
