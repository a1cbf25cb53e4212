"""Posts requests to one provider's endpoint and reads its answers as they arrive."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from io import BytesIO
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from agent_service.models.endpoints import Endpoint, key_header, url_below
from agent_service.models.failures import (
    NO_CONNECTION,
    connection_failure,
    cut_failure,
    http_failure,
    proxy_failure,
    timeout_failure,
)
from agent_service.models.proxies import open_session, reason_of, without_user
from agent_service.models.wires.wire import Wire
from agent_service.records.model_errors import ModelError
from services.errors import ServiceUnavailable

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_DRAIN_S = 0.05
_MAX_ERROR_BYTES = 256 * 1024
_HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}


class Timeouts(Struct, frozen=True):
    """How long to wait for a connection, and for the next bytes of an answer."""

    connect_s: float = 10.0
    idle_s: float = 300.0


class Answer:
    """A successful response whose body is still arriving."""

    def __init__(self, response: "ClientResponse", endpoint: Endpoint, idle_s: float) -> None:
        self.content_type = response.headers.get("content-type", "")
        self._content = response.content
        self._endpoint = endpoint
        self._idle_s = idle_s

    async def read(self) -> bytes:
        """Return the bytes received since the last call; empty at the end; raises `ModelError`."""
        import aiohttp

        try:
            return await self._content.readany()
        except TimeoutError as error:
            raise timeout_failure(self._endpoint, self._idle_s) from error
        except aiohttp.ClientError as error:
            reason = str(error) or "the connection is gone"
            raise cut_failure(self._endpoint, reason) from error

    async def drain(self) -> None:
        """Read the rest of a finished body if it ends soon, so that the connection is reused."""
        with suppress(TimeoutError, ModelError):
            async with asyncio.timeout(_DRAIN_S):
                while await self.read():
                    pass


class Transport:
    """Posts requests of one kind to one provider's endpoint over a pool of connections."""

    def __init__(self, wire: Wire, timeouts: Timeouts | None = None) -> None:
        self._key_header = wire.key_header
        self._path = wire.path
        self._timeouts = timeouts or Timeouts()
        self._headers = {**_HEADERS, **wire.headers()}
        self._session: ClientSession | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def post(self, endpoint: Endpoint, model: str, body: bytes) -> AsyncGenerator[Answer]:
        """Post a request and yield its response; raises `ModelError`."""
        session = await self._opened(endpoint)
        with self._failures(endpoint):
            response = await self._send(session, endpoint, body)
        try:
            answer = Answer(response, endpoint, self._timeouts.idle_s)
            if not 200 <= response.status < 300:
                error = await _read_error(answer)
                raise http_failure(endpoint, model, response.status, response.headers, error)
            yield answer
        finally:
            # Keeps the connection if the body was read to its end.
            response.close()

    async def _send(
        self, session: "ClientSession", endpoint: Endpoint, body: bytes
    ) -> "ClientResponse":
        from aiohttp import ClientTimeout

        connect_s, idle_s = self._timeouts.connect_s, self._timeouts.idle_s
        # aiohttp limits the wait for the response, but not the time to send a body.
        async with asyncio.timeout(connect_s + 2 * idle_s):
            return await session.post(
                without_user(url_below(endpoint.base_url, self._path)),
                headers=self._headers_of(endpoint),
                data=BytesIO(body),  # streams a long body in pieces
                allow_redirects=False,
                timeout=ClientTimeout(connect=connect_s, sock_read=idle_s),
            )

    def _headers_of(self, endpoint: Endpoint) -> dict[str, str]:
        """The key may have changed; servers without keys get one, since some want the header."""
        key = endpoint.api_key.get_secret_value() or "none"
        name = key_header(endpoint.base_url, self._key_header)
        signed = {name: f"Bearer {key}" if name == "Authorization" else key}
        parts = (self._headers, signed, endpoint.headers)
        return {name.lower(): value for part in parts for name, value in part.items()}

    async def _opened(self, endpoint: Endpoint) -> "ClientSession":
        if self._session is None:
            async with self._opening:
                if self._session is None:
                    try:
                        self._session = await open_session(endpoint.base_url)
                    except ServiceUnavailable as error:
                        raise proxy_failure(endpoint, error.message) from None
        return self._session

    @contextmanager
    def _failures(self, endpoint: Endpoint) -> Generator[None]:
        """Turn errors before the response into `ModelError`."""
        import aiohttp

        try:
            yield
        except aiohttp.ConnectionTimeoutError as error:
            reason = f"{NO_CONNECTION} {self._timeouts.connect_s:g} s"
            raise connection_failure(endpoint, reason) from error
        except TimeoutError as error:
            raise timeout_failure(endpoint, self._timeouts.idle_s) from error
        except (aiohttp.ClientError, ValueError) as error:
            # Its own text may contain the proxy's credentials.
            raise connection_failure(endpoint, reason_of(error)) from None


async def _read_error(answer: Answer) -> str:
    body = b""
    while len(body) < _MAX_ERROR_BYTES and (data := await answer.read()):
        body += data
    return body.decode(errors="replace")
