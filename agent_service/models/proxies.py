"""HTTP sessions that reach an address directly or through the proxy that the environment names."""

import asyncio
import os
import socket
import ssl
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from services.errors import ServiceUnavailable

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from yarl import URL

KEEP_ALIVE_S = 120.0
"""Idle connections are kept between calls, since a new one costs a TLS handshake."""

_PROBE_AFTER_S = 60
"""Gateways drop connections that stay silent while a model thinks."""
_MAX_HEAD_BYTES = 100_000
_MAX_HEADERS = 1_000


def is_loopback(url: str) -> bool:
    """True for a server on this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def proxy_of(url: str) -> str | None:
    """The proxy for an address; None if it needs none; ServiceUnavailable if it is not HTTP."""
    parts, proxies = urlsplit(url), getproxies()
    name = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(name, "")
    if not proxy or is_loopback(url) or _is_exempt(url, proxies.get("no", "")):
        return None
    scheme = proxy.partition("://")[0].lower() if "://" in proxy else ""
    if scheme not in {"", "http", "https"}:
        raise ServiceUnavailable(
            f"{name.upper()}_PROXY names a {scheme} proxy, which Hermes cannot use: set an HTTP "
            f"proxy, unset the variable, or add {parts.hostname} to NO_PROXY"
        )
    return proxy if scheme else f"http://{proxy}"


async def open_session(url: str) -> "ClientSession":
    """An HTTP session for an address; ServiceUnavailable as `proxy_of`.

    Keys belong to its requests: a proxy gets the headers of the session.
    """
    proxy, trust = proxy_of(url), await asyncio.to_thread(_prepare, url)
    import aiohttp

    connector = aiohttp.TCPConnector(
        ssl=trust, limit=0, keepalive_timeout=KEEP_ALIVE_S, socket_factory=_probed_socket
    )
    return aiohttp.ClientSession(
        connector=connector,
        proxy=proxy,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_field_size=_MAX_HEAD_BYTES,
        max_headers=_MAX_HEADERS,
        headers={"User-Agent": "Hermes"},
    )


def _prepare(url: str) -> ssl.SSLContext:
    """Load the HTTP client and the trusted certificates, which takes a tenth of a second."""
    import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]

    if url.startswith("http://") and is_loopback(url):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import httpx2

    return httpx2.create_ssl_context()


def without_user(url: str) -> "URL":
    """The address without a user's name and password, which aiohttp would send."""
    from yarl import URL

    return URL(url).with_user(None)


def reason_of(error: Exception) -> str:
    """Why a request got no answer, without what aiohttp repeats of addresses and proxies."""
    import aiohttp

    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy says {error.status} {error.message}"
        case aiohttp.InvalidURL():
            return "its address or that of the proxy is not valid"
        case aiohttp.ClientConnectorError():
            return _system_reason(error.os_error)
        case aiohttp.ClientResponseError():
            return "what it says is not HTTP"
        case _:
            return str(error) or type(error).__name__


def _system_reason(error: OSError) -> str:
    """The system's error text, since asyncio says only that the call failed."""
    if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _probed_socket(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER_S)
    return made


def _is_exempt(url: str, exempt: str) -> bool:
    """Whether NO_PROXY names an address: `*`, hosts with or without port, domains, networks."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    for entry in (each.strip().lower() for each in exempt.split(",")):
        domain = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or (domain and _is_within(host, domain)):
            return True
        if parts.port and _is_within(f"{host}:{parts.port}", domain):
            return True
    return False


def _is_within(host: str, domain: str) -> bool:
    try:
        return ip_address(host) in ip_network(domain.strip("[]"), strict=False)
    except ValueError:
        return host == domain or host.endswith(f".{domain}")
