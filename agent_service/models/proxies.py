"""Clients that reach an address directly or through the HTTP proxy that the environment names."""

import ssl
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from services.errors import ServiceUnavailable

if TYPE_CHECKING:
    from httpx2 import AsyncClient


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


def client_for(url: str, **options: Any) -> "AsyncClient":
    """An HTTP client for an address; ServiceUnavailable as `proxy_of`."""
    import httpx2  # takes 0.1 s

    # Reading the system's certificates is the slowest part of making a client.
    is_plain = url.startswith("http://") and is_loopback(url)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else httpx2.create_ssl_context()
    return httpx2.AsyncClient(trust_env=False, proxy=proxy_of(url), verify=trust, **options)


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
