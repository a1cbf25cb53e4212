"""Checks what pages reach in a browser elsewhere, which does not use the proxy.

It is part of the program that drives the browser and imports only the standard library.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Route, WebSocketRoute

    from agent_service.tools.browser.egress import Hosts

NOT_CHECKED = """\
delete Navigator.prototype.serviceWorker
for (const name of ['SharedWorker', 'RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])
  delete window[name]
"""
"""Takes from pages what sends requests that are not shown here."""


class RequestChecks:
    """Refuses requests of pages; a redirect is only shown once it is followed."""

    def __init__(
        self, hosts: Hosts, refused: dict[str, str], failures: tuple[type[Exception], ...]
    ) -> None:
        """`refused` is filled with why hosts were not reached."""
        self._hosts = hosts
        self._refused = refused
        self._failures = failures
        self._redirected: list[Request] = []

    async def watch(self, context: BrowserContext) -> None:
        await context.add_init_script(NOT_CHECKED)
        await context.route("**/*", self._route)
        await context.route_web_socket(lambda _url: True, self._connect)
        context.on("request", self._see)

    async def _route(self, route: Route) -> None:
        with suppress(*self._failures):
            await (route.abort() if await self._why_not(route.request.url) else route.continue_())

    async def _connect(self, socket: WebSocketRoute) -> None:
        if await self._why_not(f"http{socket.url.removeprefix('ws')}"):
            await socket.close()
        else:
            socket.connect_to_server()

    def _see(self, request: Request) -> None:
        if request.redirected_from is not None:
            self._redirected.append(request)

    async def _why_not(self, url: str) -> str:
        if url.startswith(("data:", "blob:", "about:")):
            return ""
        if why := await self._hosts.why_not_direct(url):
            self._refused[urlsplit(url).hostname or ""] = why
        return why

    async def close_refused(self, context: BrowserContext) -> str:
        """Close pages that were redirected to what is refused, and return why; usually empty."""
        redirected, self._redirected = self._redirected, []
        found = ""
        for request in redirected:
            if why := await self._why_not(request.url):
                found = why
                for page in self._pages(request, context):
                    with suppress(*self._failures):
                        await page.close()
        return found

    def _pages(self, request: Request, context: BrowserContext) -> list[Page]:
        with suppress(*self._failures):
            return [request.frame.page]
        return list(context.pages)
