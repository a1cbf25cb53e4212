"""The one HTTP client for untrusted URLs: pages, images and results of search engines.

The transport checks the destination of every redirect. Size and time are limited, and there are no
proxies and no cookies.
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

from msgspec import Struct

from agent_service.security.fetch.charsets import decode, encoding_of
from agent_service.security.fetch.destinations import (
    Destinations,
    FetchFailed,
    FetchRefused,
    Origin,
)
from services.config.redacted_repr import RedactedRepr

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, AsyncClient, Request, Response

__all__ = ["FetchFailed", "FetchLimits", "FetchRefused", "Fetched", "Fetcher"]

USER_AGENT = "Mozilla/5.0 (compatible; Hermes/1.0)"
CONNECT_TIMEOUT_S = 10.0
_WINDOW_BITS = 47
"""For zlib: detects gzip and zlib by their headers."""
_PIECE_BYTES = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class FetchLimits(Struct, frozen=True):
    """Limits of a response's size and of the total time, redirects included."""

    size_bytes: int = 5_000_000
    total_s: float = 30.0
    redirects: int = 5


class Fetched(RedactedRepr, frozen=True):
    """A response of any status."""

    unshown = ("data",)

    url: str
    """The final URL after redirects."""
    status: int
    content_type: str
    charset: str
    """As declared by the response; empty if it declares none."""
    data: bytes
    is_cut: bool

    @property
    def text(self) -> str:
        return decode(self.data, encoding_of(self.data, self.charset))


class Fetcher:
    """Fetches URLs from allowed destinations."""

    def __init__(
        self, destinations: Destinations, certificates: ssl.SSLContext | None = None
    ) -> None:
        """`certificates` verifies servers; None uses the system's."""
        self._destinations = destinations
        self._certificates = certificates
        self._loading = asyncio.Lock()

    async def get(
        self,
        url: str,
        limits: FetchLimits | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Fetched:
        """Fetch a URL; a redirect to another origin drops the caller's headers."""
        request: dict[str, Any] = {"method": "GET", "headers": dict(headers or {})}
        if params:
            request["params"] = dict(params)
        return await self._bounded(url, limits or FetchLimits(), request)

    async def post(
        self, url: str, payload: Any, limits: FetchLimits, headers: Mapping[str, str]
    ) -> Fetched:
        """Post a JSON document; a redirect is an error."""
        request = {"method": "POST", "headers": dict(headers), "json": payload}
        return await self._bounded(url, limits, request)

    async def _bounded(self, url: str, limits: FetchLimits, request: dict[str, Any]) -> Fetched:
        client = await self._client()
        import httpx2  # the OpenAI SDK needs it as well

        try:
            async with asyncio.timeout(limits.total_s), client:
                return await self._follow(client, url, limits, request)
        except (TimeoutError, httpx2.TimeoutException):
            raise FetchFailed(f"it took longer than {limits.total_s:g} s") from None
        except httpx2.InvalidURL:
            raise FetchRefused("the URL is malformed") from None
        except httpx2.HTTPError as error:
            raise FetchFailed(f"the connection failed ({type(error).__name__})") from None

    async def _follow(
        self, client: "AsyncClient", url: str, limits: FetchLimits, request: dict[str, Any]
    ) -> Fetched:
        for _ in range(limits.redirects + 1):
            origin = Origin.parse(url)
            async with client.stream(url=url, **request) as answer:
                location = answer.headers.get("location", "")
                if answer.status_code not in _REDIRECTS or not location:
                    return await _receive(answer, url, limits)
            if request["method"] != "GET":
                raise FetchFailed("it answered with a redirect")
            url = _join(url, location)
            request.pop("params", None)
            client.cookies.clear()
            if Origin.parse(url) != origin:
                request = {"method": "GET"}
        raise FetchFailed(f"it redirects more than {limits.redirects} times")

    async def _client(self) -> "AsyncClient":
        # Loading certificates and code is slow, so do it off the event loop.
        async with self._loading:
            return await asyncio.to_thread(self._connect)

    def _connect(self) -> "AsyncClient":
        import httpx2

        if self._certificates is None:
            self._certificates = ssl.create_default_context()
        wire = vetted_transport(self._destinations, self._certificates)
        return httpx2.AsyncClient(
            transport=wire,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate"},
        )


def vetted_transport(
    destinations: Destinations, certificates: ssl.SSLContext, max_connections: int = 4
) -> "AsyncBaseTransport":
    """A transport of httpx2 that connects only to allowed destinations."""
    import httpx2

    # A connection opened for one name must not serve another name with the same address.
    wire = httpx2.AsyncHTTPTransport(
        verify=certificates,
        trust_env=False,
        limits=httpx2.Limits(max_connections=max_connections, max_keepalive_connections=0),
    )
    return cast("AsyncBaseTransport", _VettedTransport(wire, destinations))


class _VettedTransport:
    """Connects to the checked addresses under the requested name."""

    def __init__(self, wire: "AsyncBaseTransport", destinations: Destinations) -> None:
        self._wire = wire
        self._destinations = destinations

    async def __aenter__(self) -> "_VettedTransport":
        await self._wire.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._wire.__aexit__(*error)

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def handle_async_request(self, request: "Request") -> "Response":
        """Send a request to the first of its host's addresses that answers."""
        import httpx2

        asked = request.url
        addresses = await self._destinations.addresses(str(asked))
        request.extensions = {**request.extensions, "sni_hostname": Origin.parse(str(asked)).host}
        failure: Exception | None = None
        for address in addresses:
            request.url = asked.copy_with(host=str(address))
            try:
                return await self._wire.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        assert failure is not None, "a name without addresses is a failure of its own"
        raise failure


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location).partition("#")[0]
    except ValueError:
        raise FetchRefused("it redirects to a malformed URL") from None


async def _receive(answer: "Response", url: str, limits: FetchLimits) -> Fetched:
    headers = answer.headers
    body = _Body(headers.get("content-encoding", ""), limits.size_bytes)
    await body.read(answer.aiter_raw())
    kind, _, parameters = headers.get("content-type", "").partition(";")
    return Fetched(
        url=url,
        status=answer.status_code,
        content_type=kind.strip().lower(),
        charset=_charset(parameters),
        data=bytes(body.data),
        is_cut=body.is_cut,
    )


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")[:40]
    return ""


class _Body:
    def __init__(self, encoding: str, limit_bytes: int) -> None:
        """`encoding` is the Content-Encoding; FetchFailed if it is not supported."""
        self.data = bytearray()
        self.is_cut = False
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise FetchFailed(f"the answer is encoded as {name[:80]!r}, which was not requested")
        is_plain = name in {"", "identity"}
        self._inflating = None if is_plain else zlib.decompressobj(_WINDOW_BITS)

    async def read(self, chunks: AsyncIterator[bytes]) -> None:
        async for chunk in chunks:
            self._take(chunk)
            if self.is_cut:
                return

    def _take(self, chunk: bytes) -> None:
        self._taken_bytes += len(chunk)
        if self._inflating is None:
            self._add(chunk)
            return
        try:
            # In small pieces: a few compressed kilobytes may expand to gigabytes.
            while chunk and not self.is_cut and not self._inflating.eof:
                self._add(self._inflating.decompress(chunk, _PIECE_BYTES))
                chunk = self._inflating.unconsumed_tail
        except zlib.error:
            raise FetchFailed("the answer's compression is broken") from None
        if self._taken_bytes > self._limit_bytes:
            self.is_cut = True

    def _add(self, data: bytes) -> None:
        room = self._limit_bytes - len(self.data)
        self.data += data[:room]
        if len(data) > room:
            self.is_cut = True
