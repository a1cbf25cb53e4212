"""The wire under the providers' SDKs: aiohttp, whose parser is in C.

A call takes two thirds of the processor time that it takes over the SDKs' own choice, and a look at
idle connections none, however many there are. The SDKs have such a transport too, which takes a
lost connection for one that came too late.
"""

import os
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from io import BytesIO
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2

KEEP_ALIVE_S = 120.0
"""An idle connection is kept for as long as a person or a tool usually takes between two calls:
a new one costs a TLS handshake before the first token."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections of aiohttp; raises what `httpx2` raises."""

    def __init__(self, verify: ssl.SSLContext, proxy: str | None = None) -> None:
        self._verify = verify
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose body is in memory, and return once its answer begins."""
        timeout = request.extensions["timeout"]
        with _errors_translated():
            response = await self._opened().request(
                request.method,
                str(request.url),
                headers=request.headers.multi_items(),
                data=BytesIO(request.content),  # piece by piece, where it is long
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=timeout["connect"], sock_read=timeout["read"]
                ),
                proxy=self._proxy,
            )
        return httpx2.Response(
            response.status, headers=response.raw_headers, stream=_Body(response), request=request
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session, made where the event loop runs."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._verify, limit=0, keepalive_timeout=KEEP_ALIVE_S
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            )
        return self._session


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, as it comes in."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._response.content
        with _errors_translated():
            while data := await content.readany():
                yield data

    async def aclose(self) -> None:
        """Give the connection back where all of it was read, and else close it."""
        self._response.close()


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


@contextmanager
def _errors_translated() -> Generator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except aiohttp.ServerTimeoutError as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except aiohttp.ClientHttpProxyError as error:
        raise httpx2.ProxyError(str(error)) from error
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
    """What the system says, where asyncio says only that the call failed."""
    if error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)
