"""Mattermost's API, version 4."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse

CALL_S = 15.0
DEFAULT_WAIT_S = 5.0


class MattermostApi:
    """Calls of one bot, inside `async with`."""

    def __init__(self, url: str, token: str) -> None:
        self._base = f"{url.rstrip('/')}/api/v4"
        self._token = token
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        from aiohttp import ClientSession

        self._session = ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        return self

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, path: str) -> Any:
        return await self._call("GET", path)

    async def post(self, path: str, body: Any) -> Any:
        return await self._call("POST", path, json=body)

    async def put(self, path: str, body: Any) -> Any:
        return await self._call("PUT", path, json=body)

    async def upload(self, channel_id: str, name: str, data: bytes) -> str:
        """Upload a file for a channel and return its id."""
        from aiohttp import FormData

        form = FormData({"channel_id": channel_id})
        form.add_field("files", data, filename=name)
        answer = await self._call("POST", "/files", data=form, limit_s=CALL_S * 4)
        return answer["file_infos"][0]["id"]

    async def download(self, path: str, chunk_bytes: int) -> AsyncGenerator[bytes]:
        """Yield an answer's body in chunks."""
        async with _translated(None), self._opened.get(self._base + path) as answer:
            if answer.status >= 400:
                raise await _refusal(answer)
            async for chunk in answer.content.iter_chunked(chunk_bytes):
                yield chunk

    @asynccontextmanager
    async def socket(self) -> AsyncGenerator["ClientWebSocketResponse"]:
        """Connect to the stream of events."""
        async with _translated(None):
            async with asyncio.timeout(CALL_S):
                socket = await self._opened.ws_connect(f"{self._base}/websocket", max_msg_size=0)
            try:
                yield socket
            finally:
                await socket.close()

    async def _call(self, method: str, path: str, limit_s: float = CALL_S, **options: Any) -> Any:
        url = self._base + path
        async with _translated(limit_s), self._opened.request(method, url, **options) as answer:
            if answer.status >= 400:
                raise await _refusal(answer)
            return await answer.json()

    @property
    def _opened(self) -> "ClientSession":
        if self._session is None:
            raise Unreachable("mattermost is not connected")
        return self._session


@asynccontextmanager
async def _translated(limit_s: float | None) -> AsyncGenerator[None]:
    """Turn errors of the connection into ours, and a call that takes too long."""
    import aiohttp

    try:
        async with asyncio.timeout(limit_s):
            yield
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise Unreachable(f"mattermost cannot be reached ({error})") from error
    except (aiohttp.ClientError, OSError) as error:
        raise OutcomeUnknown(f"mattermost did not answer ({type(error).__name__})") from error


async def _refusal(answer: "ClientResponse") -> PlatformError:
    status = answer.status
    try:
        body = await answer.json(content_type=None)
        said = f"mattermost: {body['message']} ({body['id']})"
    except (KeyError, TypeError, ValueError):
        said = f"mattermost: HTTP {status}"
    match status:
        case 429:
            wait_s = float(answer.headers.get("X-Ratelimit-Reset", DEFAULT_WAIT_S))
            return RateLimited(f"mattermost wants us to wait for {wait_s:g} s", wait_s)
        case 401:
            return AccountRefused("mattermost does not know this bot; check MATTERMOST_TOKEN")
        case 404:
            return MessageGone(said)
        case _:
            return OutcomeUnknown(said) if status >= 500 else Refused(said)
