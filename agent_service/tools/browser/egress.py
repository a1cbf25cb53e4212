"""Which hosts a browser may reach, and what sees to it.

It is part of the program that drives the browser and imports only the standard library.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Route, WebSocketRoute

MAX_HEAD_BYTES = 65_536

NO_NETWORK = (
    "{0} cannot be resolved; if no host can be, the sandbox has no network: its template needs "
    "network_mode: open"
)

NOT_PUBLIC = "is not a public address, and not named in security.browser.allow"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refused(Exception):
    """The request cannot be fulfilled; the message says why."""


class Hosts:
    """Which hosts may be reached."""

    def __init__(self, allow: list[str], deny: list[str]) -> None:
        self.allow = [name.lower() for name in allow]
        self.deny = [name.lower() for name in deny]

    def why_not(self, host: str) -> str:
        """Return why a host may not be reached; empty if it may."""
        host = host.lower().rstrip(".")
        if any(_matches(host, name) for name in self.deny):
            return f"{host} is on security.browser.deny"
        if self.allow and not self.names(host):
            return f"{host} is not on security.browser.allow"
        return ""

    def names(self, host: str) -> bool:
        return any(_matches(host.lower(), name) for name in self.allow)

    def why_not_url(self, url: str, *, is_direct: bool) -> str:
        """The same for an address that is to be opened."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return "only http and https addresses can be opened"
        if is_direct and not self.names(parts.hostname) and not _may_be_public(parts.hostname):
            return f"{parts.hostname} {NOT_PUBLIC}"
        return self.why_not(parts.hostname)

    async def why_not_direct(self, url: str) -> str:
        """The same if no proxy is between; a name is resolved here, if it can be."""
        why, host = self.why_not_url(url, is_direct=True), urlsplit(url).hostname or ""
        if not why and not self.names(host):
            loop, found = asyncio.get_running_loop(), []
            with suppress(OSError, UnicodeError):
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            if not all(is_public(str(each[4][0])) for each in found):
                return f"{host} {NOT_PUBLIC}"
        return why


def _matches(host: str, name: str) -> bool:
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _may_be_public(host: str) -> bool:
    try:
        return is_public(host)
    except ValueError:
        return host.lower() != "localhost" and not host.lower().endswith((".localhost", ".local"))


def is_public(address: str) -> bool:
    """Return whether an IP address is public; ValueError for a name."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo or (None, None))[1]
        if inner is not None or ip in ipaddress.ip_network("64:ff9b::/96"):
            return False
    return ip.is_global and not ip.is_multicast


class Proxy:
    """The browser's only way out: checks each host, and passes it on to the sandbox's proxy.

    Without one, it connects by itself, to public addresses only.
    """

    def __init__(self, hosts: Hosts) -> None:
        named = getproxies().get("https", "")
        self.upstream = urlsplit(named) if named else None
        self.refused: dict[str, str] = {}
        """Why hosts were not reached."""
        self.hosts = hosts

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Serve on loopback, and yield the address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unusable = ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        host, opened = "", [writer]
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, _, fields = head.partition("\r\n")
            method, target, version = line.split(" ")
            is_tunnel = method == "CONNECT"
            parts = urlsplit(f"//{target}" if is_tunnel else target)
            host = parts.hostname or ""
            outside = await self._connect(host, parts.port or (443 if is_tunnel else 80))
            opened.append(outside[1])
            if is_tunnel:
                await self._open_tunnel(head, outside, writer)
            else:
                # Each connection has one request, so that all are checked.
                kept = re.sub(r"(?im)^(?:proxy-)?connection:.*\r\n", "", fields)
                path = target if self.upstream else target.partition(parts.netloc)[2] or "/"
                sent = f"{method} {path} {version}\r\nConnection: close\r\n{kept}"
                outside[1].write(sent.encode("latin-1"))
            await asyncio.gather(_relay(reader, outside[1]), _relay(outside[0], writer))
        except (OSError, *unusable):
            pass
        except Refused as error:
            # No answer is better than one that a page could read.
            self.refused[host] = str(error)
        finally:
            for each in opened:
                each.close()

    async def _open_tunnel(self, head: str, outside: Streams, writer: asyncio.StreamWriter) -> None:
        if self.upstream is not None:
            outside[1].write(head.encode("latin-1"))
            answer = await outside[0].readuntil(b"\r\n\r\n")
            if b" 200 " not in answer.partition(b"\r\n")[0]:
                raise Refused((await outside[0].read(500)).decode(errors="replace").strip())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def _connect(self, host: str, port: int) -> Streams:
        if why := self.hosts.why_not(host):
            raise Refused(why)
        if self.upstream is not None:
            return await asyncio.open_connection(self.upstream.hostname, self.upstream.port)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            raise Refused(NO_NETWORK.format(host)) from None
        addresses = [str(each[4][0]) for each in found]
        if not self.hosts.names(host) and not all(map(is_public, addresses)):
            raise Refused(f"{host} {NOT_PUBLIC}")
        return await asyncio.open_connection(addresses[0], port)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


NOT_CHECKED = """\
delete Navigator.prototype.serviceWorker
for (const name of ['SharedWorker', 'RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])
  delete window[name]
"""
"""Takes from pages what sends requests that are not shown here."""


class RequestChecks:
    """Refuses requests of pages in a browser elsewhere, which does not use the proxy.

    A redirect is only shown once it is followed.
    """

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
