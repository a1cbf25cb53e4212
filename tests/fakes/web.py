"""Web servers for tests: real ones on loopback, each on an address of its own, also with TLS."""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.http_server import Handler, bind, serving


@dataclass(slots=True)
class Site:
    """A running web server; `seen` are the requests that came, oldest first."""

    host: str
    port: int
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
    listener, _ = bind(host, port)
    running = Site(host, listener.getsockname()[1])

    async def handle(request: web.Request) -> web.StreamResponse:
        running.seen.append(request)
        return await handler(request)

    async with serving(listener, handle, tls):
        yield running
