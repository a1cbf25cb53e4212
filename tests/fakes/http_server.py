"""What the fakes over HTTP have in common: running, and breaking connections off."""

import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from services.lifecycle import Workers

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def bind(host: str = "127.0.0.1", port: int = 0) -> tuple[socket.socket, str]:
    """A listening socket, and its URL."""
    listener = socket.create_server((host, port))
    return listener, f"http://{host}:{listener.getsockname()[1]}"


@asynccontextmanager
async def serving(
    listener: socket.socket, handler: Handler | web.Application, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[None]:
    """Serve an application, or give a handler all requests."""
    if isinstance(handler, web.Application):
        app = handler
    else:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", handler)
    # To aiohttp, 0 means without a limit.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving_routes(listener: socket.socket, routes: Sequence[Route]) -> AsyncGenerator[None]:
    """Serve routes of Starlette, which notice that whoever asked has gone."""
    app = Starlette(routes=routes)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    async with Workers() as workers:
        running = workers.start("server", server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            await running


def cut(request: web.Request) -> web.Response:
    """Break the connection off."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


class Cut(Response):
    """A response of Starlette that breaks off."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
