"""What the fakes over aiohttp have in common: running, and breaking connections off."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def bind(host: str = "127.0.0.1") -> tuple[socket.socket, str]:
    """A listening socket, and its URL."""
    listener = socket.create_server((host, 0))
    return listener, f"http://{host}:{listener.getsockname()[1]}"


@asynccontextmanager
async def serving(listener: socket.socket, handler: Handler) -> AsyncGenerator[None]:
    """Give a handler all requests."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


def cut(request: web.Request) -> web.StreamResponse:
    """Break the connection off."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
