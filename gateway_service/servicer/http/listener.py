"""The HTTP port of the gateway."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web
from msgspec import Struct

from gateway_service.platforms.api_config import ApiConfig
from gateway_service.platforms.base import WebhookRequest
from gateway_service.servicer.http.exchange import (
    JSON,
    SESSION_HEADER,
    Call,
    EventStream,
    Guard,
    Handler,
    Reply,
    describe,
    encode,
    error_document,
    event,
    json_reply,
    refuse,
)
from gateway_service.servicer.http.routes import Routes
from gateway_service.servicer.http.webhooks import Webhooks
from services.errors import Draining, HermesError, Internal, NotFound, ResourceExhausted
from services.lifecycle import Workers, result_or_error

if TYPE_CHECKING:
    from gateway_service.servicer.mcp.server import McpEndpoint

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 * 1024 * 1024
"""The limit for requests with a key, in which a file of 20 MB has room."""
MAX_WEBHOOK_BYTES = 4 * 1024 * 1024
MAX_WEBHOOKS = 256
"""How many webhooks are read and stored at the same time."""
KEEP_ALIVE_S = 75.0
LINGER_S = 2.0
"""How long a refused body is still read, so that the client sees the refusal."""
SHUTDOWN_S = 1.0
MCP = "/mcp"
WEBHOOKS = "/webhooks/{platform}{rest:(/.*)?}"
_STREAM = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Hermes-Session-Id"
    ),
    "Access-Control-Max-Age": "600",
}

Check: TypeAlias = Callable[[Mapping[str, str]], None]
"""Raises unless a request with these headers may be answered."""


class Waits(Struct, frozen=True):
    """How long the port waits, in seconds."""

    read_s: float = 30.0
    """For the first head of a connection, and for each body."""
    retry_s: float = 10.0
    """Before it is opened again, if another program uses it."""
    silence_s: float = 15.0
    """Before a quiet stream has a comment, which keeps its connection alive."""


_WAITS = Waits()


class HttpListener:
    """Serves HTTP while it runs."""

    def __init__(
        self,
        config: ApiConfig,
        profile: str,
        routes: Routes,
        webhooks: Webhooks,
        waits: Waits = _WAITS,
        mcp: "McpEndpoint | None" = None,
    ) -> None:
        self._config = config
        self._guard = Guard(config)
        self._profile = profile
        self._routes = routes
        self._webhooks = webhooks
        self._mcp = mcp
        self._waits = waits
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        """Connections that sent no request yet."""
        self._active = self._called = 0
        self._is_draining = False
        self._trouble = ""
        self.port = 0
        """The actual port; 0 while nothing is served."""

    async def run(self) -> None:
        """Serve until cancelled."""
        self._webhooks.initialize()
        async with AsyncExitStack() as stack:
            if self._mcp is not None:
                await stack.enter_async_context(self._mcp.running())
            runner = web.AppRunner(
                self._application(),
                handler_cancellation=True,
                access_log=None,
                keepalive_timeout=KEEP_ALIVE_S,
                lingering_time=LINGER_S,
                shutdown_timeout=SHUTDOWN_S,
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            assert runner.server is not None
            server = await self._listen(partial(self._connect, runner.server))
            stack.callback(server.close)
            await asyncio.Event().wait()

    def drain(self) -> None:
        """Take no more requests."""
        self._is_draining = True

    def unready(self) -> str:
        """Return why nothing is served."""
        return self._trouble

    async def _listen(self, connect: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        """Open the port, trying again if it is in use, so that chats go on meanwhile."""
        config, loop = self._config, asyncio.get_running_loop()
        place = f"{config.host}:{config.port}"
        while True:
            try:
                server = await loop.create_server(connect, config.host, config.port)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                trouble = f"HTTP is not served on {place}: {reason}"
                if trouble != self._trouble:
                    _log.error("%s; set API_SERVER_PORT to use another port", trouble)
                self._trouble = trouble
                await asyncio.sleep(self._waits.retry_s)
                continue
            self._trouble, self.port = "", server.sockets[0].getsockname()[1]
            _log.info("HTTP is served on %s:%d", config.host, self.port)
            return server

    def _connect(self, server: web.Server) -> asyncio.Protocol:
        """Accept a connection, which is closed if it sends no request in time."""
        connection = server()
        loop = asyncio.get_running_loop()
        self._silent[connection] = loop.call_later(self._waits.read_s, self._close, connection)
        return connection

    def _close(self, connection: web.RequestHandler) -> None:
        del self._silent[connection]
        connection.force_close()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._finish])
        app.on_response_prepare.append(_hide_server)
        app.router.add_get("/health", self._health)
        app.router.add_route("*", WEBHOOKS, self._webhook)
        if self._config.is_on:
            for (method, path), handler in self._routes.items():
                app.router.add_route(method, path, partial(self._serve, self._guard.check, handler))
        if self._mcp is not None:
            serve = partial(self._serve, self._mcp.check, self._mcp.handle)
            app.router.add_post(MCP, serve)
        return app

    @web.middleware
    async def _finish(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Handle a request; errors of the server itself have the shape of all others."""
        if (timer := self._silent.pop(request.protocol, None)) is not None:
            timer.cancel()
        if request.method == "OPTIONS":
            return web.Response(status=204, headers={**self._cors(request), **_PREFLIGHT})
        try:
            response = await handler(request)
        except web.HTTPException as error:
            code = HTTPStatus(error.status).name.lower()
            document = error_document(f"{error.status}: {error.reason}", error.status, code)
            response = self._response(request, Reply(encode(document), error.status))
        resource = request.match_info.route.resource
        route = "unknown" if resource is None else resource.canonical
        self._webhooks.metrics.http_requests.labels(route, str(response.status)).inc()
        return response

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return self._response(request, json_reply({"status": "ok"}))

    async def _webhook(self, request: web.Request) -> web.StreamResponse:
        # Anybody may call, so what is held at the same time is limited.
        if not self._webhooks.knows(request.match_info["platform"]):
            return self._response(request, refuse(NotFound("no platform is called here")))
        if self._called >= MAX_WEBHOOKS:
            busy = ResourceExhausted("too many requests at the same time", retry_after_s=1)
            return self._response(request, refuse(busy))
        self._called += 1
        try:
            return self._response(request, await self._receive(request))
        finally:
            self._called -= 1

    async def _receive(self, request: web.Request) -> Reply:
        platform = request.match_info["platform"]
        body = await self._body(request, MAX_WEBHOOK_BYTES)
        base = self._config.public_url.rstrip("/") or _base_url(request)
        asked = WebhookRequest(
            method=request.method,
            url=base + request.raw_path,
            query=dict(request.query),
            headers=_headers(request),
            body=body,
        )
        return await self._webhooks.receive(platform, asked)

    async def _serve(
        self, check: Check, handler: Handler, request: web.Request
    ) -> web.StreamResponse:
        if self._active >= self._config.max_requests:
            busy = ResourceExhausted("too many requests at the same time", retry_after_s=1)
            return self._response(request, refuse(busy))
        self._active += 1
        try:
            answer = await result_or_error(self._handle(check, handler, request))
            if isinstance(answer, EventStream):
                return await self._stream(request, answer)
        except HermesError as refusal:
            return self._response(request, refuse(refusal))
        finally:
            self._active -= 1
        if isinstance(answer, Reply):
            return self._response(request, answer)
        return self._response(request, refuse(_internal(request, answer)))

    async def _handle(
        self, check: Check, handler: Handler, request: web.Request
    ) -> Reply | EventStream:
        if self._is_draining:
            raise Draining("the gateway is shutting down")
        headers = _headers(request)
        check(headers)
        body = await self._body(request, MAX_BODY_BYTES)
        if body and request.content_type != JSON:
            raise web.HTTPUnsupportedMediaType(reason=f"send {JSON}")
        named = request.match_info.get("id", "")
        return await handler(Call(self._profile, headers, body, named))

    async def _body(self, request: web.Request, max_bytes: int) -> bytes:
        if (request.content_length or 0) > max_bytes:
            raise web.HTTPRequestEntityTooLarge(max_bytes, request.content_length or 0)
        body = bytearray()
        try:
            async with asyncio.timeout(self._waits.read_s):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > max_bytes:
                        raise web.HTTPRequestEntityTooLarge(max_bytes, len(body))
        except TimeoutError:
            raise web.HTTPRequestTimeout(reason="the body did not arrive in time") from None
        return bytes(body)

    async def _stream(self, request: web.Request, answer: EventStream) -> web.StreamResponse:
        response = web.StreamResponse(headers={**_STREAM, **answer.headers, **self._cors(request)})
        async with aclosing(answer.chunks) as chunks, Workers() as workers:
            await response.prepare(request)
            workers.start("heartbeat", self._beat(response))
            try:
                error = await result_or_error(_write(response, chunks))
            except HermesError as refusal:
                error = refusal
            if error is not None:
                told = error if isinstance(error, HermesError) else _internal(request, error)
                await response.write(event(describe(told)))
        await response.write_eof()
        return response

    async def _beat(self, response: web.StreamResponse) -> None:
        while True:
            await asyncio.sleep(self._waits.silence_s)
            with suppress(ConnectionError):
                await response.write(b": \n\n")

    def _response(self, request: web.Request, reply: Reply) -> web.Response:
        return web.Response(
            body=reply.body,
            status=reply.status,
            headers={**reply.headers, **self._cors(request)},
            content_type=reply.content_type,
        )

    def _cors(self, request: web.Request) -> dict[str, str]:
        origin = request.headers.get("Origin", "")
        if not self._guard.allows_origin(origin):
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": SESSION_HEADER,
            "Vary": "Origin",
        }


async def _hide_server(_request: web.Request, response: web.StreamResponse) -> None:
    """Remove the header in which aiohttp tells versions."""
    response.headers.pop("Server", None)


async def _write(response: web.StreamResponse, chunks: AsyncGenerator[bytes]) -> None:
    async for chunk in chunks:
        await response.write(chunk)


def _internal(request: web.Request, error: Exception) -> HermesError:
    """Log an error that is not ours; the server's own errors and lost connections are raised."""
    if isinstance(error, web.HTTPException | ConnectionError):
        raise error
    _log.error("a request failed: %s", request.path, exc_info=error)
    return Internal("something went wrong; the log has the details")


def _headers(request: web.Request) -> dict[str, str]:
    # Bytes that are not UTF-8 come as surrogates, which cannot be encoded again.
    clean = {name: text.encode(errors="replace").decode() for name, text in request.headers.items()}
    return {name.lower(): text for name, text in clean.items()}


def _base_url(request: web.Request) -> str:
    scheme = request.headers.get("X-Forwarded-Proto", request.scheme)
    return f"{scheme}://{request.host}"
