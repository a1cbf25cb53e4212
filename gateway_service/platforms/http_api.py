"""Calls to the HTTP API of a platform, with errors of ours."""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast
from urllib.parse import urlsplit

from gateway_service.errors import (
    AccountRefused,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
    no_answer,
)
from gateway_service.platforms.base import Platform
from services.validation import json_object

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp import ClientWebSocketResponse as WebSocket

CALL_S = 20.0
CONNECT_S = 5.0
SILENCE_S = 60.0
"""For how long an answer may pause."""
DEFAULT_WAIT_S = 5.0
CHUNK_BYTES = 1 << 16
CLOSE_S = 1.0
MAX_FRAME_BYTES = 64 << 20


_Api = TypeVar("_Api", bound=AbstractAsyncContextManager[object])


class HttpApi:
    """One account's API, connected inside `async with`."""

    wait_header = "Retry-After"
    """The header that says for how many seconds to wait."""

    def __init__(
        self,
        service: str,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        variable: str = "",
        *,
        has_proxy: bool = True,
    ) -> None:
        """Paths are appended to `base_url`; `variable` holds the secret that may be refused.

        Without `has_proxy` the proxies of the environment are not used.
        """
        self.service = service
        self.base_url = base_url.rstrip("/")
        self._headers, self._variable, self._has_proxy = headers, variable, has_proxy
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        from aiohttp import ClientSession, ClientTimeout

        timeout = ClientTimeout(sock_connect=CONNECT_S, sock_read=SILENCE_S)
        self._session = ClientSession(
            headers=self._headers, timeout=timeout, trust_env=self._has_proxy
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def session(self) -> "ClientSession":
        if self._session is None:
            raise Unreachable(f"{self.service} is not connected")
        return self._session

    async def call(self, method: str, path: str, limit_s: float = CALL_S, **options: Any) -> Any:
        """Return the JSON of an answer; `options` are those of aiohttp."""
        async with self.stream(method, path, limit_s, **options) as answer:
            try:
                return await answer.json(content_type=None)
            except ValueError:
                raise OutcomeUnknown(f"{self.service} gave an answer that is no JSON") from None

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, limit_s: float | None = None, **options: Any
    ) -> AsyncGenerator["ClientResponse"]:
        """Make a call whose answer is read piece by piece; `limit_s` is for all of it."""
        session = self.session
        with self.translated():
            async with (
                asyncio.timeout(limit_s),
                session.request(method, self._url(path), **options) as answer,
            ):
                if answer.status >= 300:
                    raise self.refusal(answer, json_object(await answer.read()) or {})
                yield answer

    async def download(
        self, url: str, hosts: Sequence[str] = (), *, follow: bool = False, **options: Any
    ) -> AsyncGenerator[bytes]:
        """Yield a file's content, from the API or below one of the hosts, which begin with a dot.

        `follow` allows redirects; other hosts do not get the secret.
        """
        place = urlsplit(self._url(url))
        is_known = place.scheme == "https" and f".{place.hostname}".endswith(tuple(hosts))
        if not is_known and place.netloc != urlsplit(self.base_url).netloc:
            raise Refused(f"{self.service}: a file is at {place.hostname}, which is elsewhere")
        async with self.stream("GET", url, allow_redirects=follow, **options) as answer:
            async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
                yield chunk

    @asynccontextmanager
    async def socket(self, url: str, **options: Any) -> AsyncGenerator["WebSocket"]:
        """Open a WebSocket."""
        connect = cast("Any", self.session.ws_connect)  # has too many overloads
        with self.translated():
            async with asyncio.timeout(CALL_S):
                opened: WebSocket = await connect(
                    self._url(url), max_msg_size=MAX_FRAME_BYTES, **options
                )
            try:
                yield opened
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        await opened.close()

    def refusal(self, answer: "ClientResponse", body: Mapping[str, Any]) -> PlatformError:
        """Return what a failed answer means."""
        status = answer.status
        if status == 429:
            wait = answer.headers.get(self.wait_header, "")
            wait_s = float(wait) if wait.isdecimal() else DEFAULT_WAIT_S
            return RateLimited(f"{self.service} wants us to wait for {wait_s:g} s", wait_s)
        if status == 401:
            return AccountRefused(f"{self.service} refuses the account; check {self._variable}")
        if status >= 500:
            return OutcomeUnknown(f"{self.service} failed ({status})")
        return Refused(f"{self.service}: {body.get('message') or f'HTTP {status}'}")

    @contextmanager
    def translated(self) -> Generator[None]:
        """Raise errors of the connection as ours: Unreachable if nothing was done."""
        import aiohttp

        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # Not the error's own text, which may contain the URL with a secret.
            number, place = getattr(error, "errno", 0) or 0, urlsplit(self.base_url).hostname
            why = os.strerror(number) if number > 0 else "check the address and the network"
            raise Unreachable(f"{self.service} cannot be reached at {place}: {why}") from None
        except aiohttp.InvalidURL:
            raise Unreachable(f"{self.service} has an address that is no URL") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(self.service, error) from None

    def _url(self, path: str) -> str:
        return path if "://" in path else self.base_url + path


class HttpPlatform(Platform, Generic[_Api]):
    """An account that is connected by its HTTP API alone."""

    _api: _Api

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._api)
            await self._log_in()
            stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.__aexit__(None, None, None)

    async def _log_in(self) -> None:
        """Ask whether the account may be used."""
