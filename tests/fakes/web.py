"""Web servers for tests: real ones on loopback, each on an address of its own, also with TLS."""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Site:
    """A running web server; `seen` are the requests that came, oldest first."""

    host: str
    port: int = 0
    seen: list[web.Request] = field(default_factory=list[web.Request])

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [request.path_qs for request in self.seen]

    def url(self, name: str, path: str = "/", scheme: str = "http") -> str:
        """A URL of it under some name."""
        return f"{scheme}://{name}:{self.port}{path}"


@asynccontextmanager
async def site(
    handler: Handler, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Site]:
    """Serve requests with a handler for as long as the context is open."""
    running = Site(host)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.Request)
        running.seen.append(request)
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        tcp = web.TCPSite(runner, host, port, ssl_context=tls)
        await tcp.start()
        running.port = runner.addresses[0][1]
        yield running
    finally:
        await runner.cleanup()
