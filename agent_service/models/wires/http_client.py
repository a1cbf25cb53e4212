"""The HTTP client under the SDK: aiohttp, whose parser is in C.

A call takes two thirds of the CPU time of httpx2's own transport, with any number of idle
connections. The SDK's aiohttp client reports a lost connection as a timeout.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from typing import Any

import aiohttp
import httpx2

from agent_service.models.wires.wire import READ

KEEP_ALIVE_S = 120.0
"""Idle connections are kept between calls, since a new one costs a TLS handshake."""

_PROBE_AFTER_S = 60
"""Gateways drop connections that stay silent while a model thinks."""
_MAX_HEAD_BYTES = 100_000
_MAX_HEADERS = 1_000
_ENCODING = b"content-encoding"  # already decoded by aiohttp
_ABOUT_US = "x-stainless-"
"""Prefix of the headers in which the SDK describes this machine; they are not sent."""


class AiohttpClient(httpx2.AsyncClient):
    """An httpx2 client, for its proxy support, over aiohttp connections."""

    def _init_transport(
        self, verify: ssl.SSLContext | str | bool = True, *_: Any, **__: Any
    ) -> httpx2.AsyncBaseTransport:
        return _Transport(verify)

    def _init_proxy_transport(
        self, proxy: httpx2.Proxy, verify: ssl.SSLContext | str | bool = True, *_: Any, **__: Any
    ) -> httpx2.AsyncBaseTransport:
        return _Transport(verify, proxy)

    def build_request(
        self, method: str, url: httpx2.URL | str, *, content: Any = None, **more: Any
    ) -> httpx2.Request:
        """Return the SDK's request without merging httpx2's defaults."""
        return httpx2.Request(
            method,
            _parse_url(str(url)),
            content=content,
            headers=[
                ("Accept-Encoding", "gzip, deflate"),
                *(each for each in more["headers"] if not each[0].lower().startswith(_ABOUT_US)),
            ],
            extensions={"timeout": more["timeout"].as_dict()},
        )

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """Send a request without redirects, cookies and HTTP authentication."""
        return await self._transport_for_url(request.url).handle_async_request(request)


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(
        self, verify: ssl.SSLContext | str | bool, proxy: httpx2.Proxy | None = None
    ) -> None:
        assert isinstance(verify, ssl.SSLContext), "the caller says what it trusts"
        self._verify = verify
        self._proxy = None if proxy is None else _address(proxy)
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits = request.extensions["timeout"]
        url = request.url.copy_with(userinfo=b"") if request.url.userinfo else request.url
        with _errors_translated():
            # aiohttp limits the wait for the response, but not the time to send a body.
            async with asyncio.timeout(limits["connect"] + limits["write"] + limits["read"]):
                response = await self._opened().request(
                    request.method,
                    str(url),
                    headers=request.headers.multi_items(),
                    data=BytesIO(request.content),  # streams a long body in pieces
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        connect=limits["connect"], sock_read=limits["read"]
                    ),
                    proxy=self._proxy,
                )
        body = _Body(response)
        return httpx2.Response(
            response.status,
            headers=[each for each in response.raw_headers if each[0].lower() != _ENCODING],
            stream=body,
            extensions={READ: body.read},
            request=request,
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._verify,
                limit=0,
                keepalive_timeout=KEEP_ALIVE_S,
                socket_factory=_probed_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                max_field_size=_MAX_HEAD_BYTES,
                max_headers=_MAX_HEADERS,
            )
        return self._session


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def read(self) -> bytes:
        """The bytes received since the last call; empty at the end."""
        with _errors_translated():
            return await self._response.content.readany()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def aclose(self) -> None:
        """Return the connection to the pool if the body was read to its end, else close it."""
        self._response.close()


@lru_cache(8)
def _parse_url(url: str) -> httpx2.URL:
    return httpx2.URL(url)


def _address(proxy: httpx2.Proxy) -> str:
    """The proxy's address with its credentials, which httpx2 stores separately."""
    if proxy.auth is None:
        return str(proxy.url)
    username, password = proxy.auth
    return str(proxy.url.copy_with(username=username, password=password))


def _probed_socket(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER_S)
    return made


@contextmanager
def _errors_translated() -> Generator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except aiohttp.ServerTimeoutError as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except TimeoutError as error:
        raise httpx2.WriteTimeout("the request could not be sent in time") from error
    except aiohttp.ClientHttpProxyError as error:
        # Its own text contains the proxy's credentials.
        reason = f"the proxy says {error.status} {error.message}"
        raise httpx2.ProxyError(reason) from None
    except aiohttp.ClientConnectorError as error:
        # Its own text repeats the address.
        raise httpx2.ConnectError(_reason(error.os_error)) from error
    except aiohttp.ClientOSError as error:
        raise httpx2.ReadError(str(error)) from error
    except aiohttp.ClientResponseError as error:
        raise httpx2.RemoteProtocolError("what it says is not HTTP") from error
    except aiohttp.ClientError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error


def _reason(error: OSError) -> str:
    """The system's error text, since asyncio says only that the call failed."""
    if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)
