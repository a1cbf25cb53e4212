"""Slack's Web API: slack-sdk's client, with errors of ours."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
)
from gateway_service.platforms.slack.config import SlackConfig

if TYPE_CHECKING:
    import aiohttp
    from slack_sdk.web.async_client import AsyncWebClient

CALL_S = 30.0
CONNECT_S = 5.0
DEFAULT_WAIT_S = 5.0
HEARTBEAT_S = 15.0
CHUNK_BYTES = 1 << 16

_ACCOUNT = {
    "account_inactive",
    "access_denied",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "org_login_required",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
}
_GONE = {"message_not_found", "cant_update_message", "edit_window_closed"}
_FAULTS = {"fatal_error", "internal_error", "request_timeout", "service_unavailable"}
_LIMITED = {"ratelimited", "rate_limited"}


class SlackApi:
    """Calls Slack for one account."""

    def __init__(self, config: SlackConfig) -> None:
        self._token = config.token.get_secret_value()
        self._app_token = config.app_token.get_secret_value()
        self._base_url = config.base_url
        self._client: AsyncWebClient | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def account_id(self) -> str:
        """Return the numbers of workspace and bot, which stay the same in a new token."""
        _, *numbers = self._token.split("-")
        if len(numbers) > 2:
            return "-".join(numbers[:2])
        return hashlib.sha256(self._token.encode()).hexdigest()[:16]

    async def connect(self) -> None:
        import aiohttp

        client = await self._load()
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_S, sock_read=CALL_S)
        self._session = client.session = aiohttp.ClientSession(timeout=timeout, trust_env=True)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, /, **fields: Any) -> dict[str, Any]:
        """Call a method of slack-sdk's client, such as `chat_postMessage`, while connected."""
        _ = self._opened
        return await self.look_up(method, **fields)

    async def look_up(self, method: str, /, **fields: Any) -> dict[str, Any]:
        """Call a method; unless connected, over a connection of its own."""
        import aiohttp

        client = await self._load()
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            response = await getattr(client, method)(**fields)
        except SlackApiError as error:
            # Not the error's own text: it contains the whole response.
            raise _translate(error.response) from None
        except SlackClientError as error:
            raise OutcomeUnknown(f"slack: {error}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(f"slack cannot be reached ({type(error).__name__})") from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise OutcomeUnknown(f"slack did not answer ({type(error).__name__})") from error
        return response.data

    async def socket_url(self) -> str:
        found = await self.call("apps_connections_open", app_token=self._app_token)
        return found["url"]

    async def open_socket(self) -> "aiohttp.ClientWebSocketResponse":
        """Open a connection of Socket Mode."""
        import aiohttp

        url = await self.socket_url()
        try:
            return await self._opened.ws_connect(url, heartbeat=HEARTBEAT_S)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"slack cannot be reached ({type(error).__name__})") from error

    async def download(self, url: str) -> AsyncGenerator[bytes]:
        """Yield a private file's content; the token goes to Slack only."""
        import aiohttp

        host, own = urlsplit(url), urlsplit(self._base_url)
        is_slack = host.scheme == "https" and f".{host.hostname}".endswith(".slack.com")
        if not is_slack and host.netloc != own.netloc:
            raise Refused(f"slack: a file is at {host.hostname}, which is not Slack")
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            # What the token may not read leads to a page for signing in.
            async with self._opened.get(url, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise Refused(f"slack does not give the file ({response.status}: files:read?)")
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"slack did not answer ({type(error).__name__})") from error

    @property
    def _opened(self) -> "aiohttp.ClientSession":
        if self._session is None:
            raise Unreachable("slack is not connected")
        return self._session

    async def _load(self) -> "AsyncWebClient":
        if self._client is None:
            # The library takes half a second to load.
            self._client = await asyncio.to_thread(_make_client, self._token, self._base_url)
        return self._client


def _make_client(token: str, base_url: str) -> "AsyncWebClient":
    try:
        from slack_sdk.web.async_client import AsyncWebClient
    except ImportError as error:
        raise AccountRefused(
            "slack needs a package more: pip install 'hermes-services[slack]'"
        ) from error

    # Its own retries could send a message twice.
    client = AsyncWebClient(token, base_url, retry_handlers=[])
    client.proxy = None  # the session knows the proxies, and NO_PROXY
    return client


def _translate(response: Any) -> PlatformError:
    """Turn an AsyncSlackResponse, or an aiohttp.ClientResponse if it was unreadable, into an error
    of ours."""
    found = getattr(response, "data", None)
    data = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    code = str(data.get("error", ""))
    status = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    if status == 429 or code in _LIMITED:
        wait_s = float(response.headers.get("Retry-After", DEFAULT_WAIT_S))
        return RateLimited(f"slack wants us to wait for {wait_s:g} s", wait_s)
    if code in _ACCOUNT:
        return AccountRefused(f"slack refuses the app ({code}); check its tokens")
    if code == "missing_scope":
        needed = data.get("needed", "")
        return Refused(f"slack: the app lacks the scope {needed}; add it and reinstall the app")
    if code in _GONE:
        return MessageGone(f"slack: {code}")
    if not code or code in _FAULTS or status >= 500:
        return OutcomeUnknown(f"slack failed ({code or status})")
    return Refused(f"slack: {code}")
