"""Slack's Web API: slack-sdk's client, with errors of ours."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from gateway_service.errors import (
    AccountRefused,
    MessageGone,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
)
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.slack.config import SlackConfig

if TYPE_CHECKING:
    import aiohttp
    from slack_sdk.web.async_client import AsyncWebClient

NAME = "slack"
DEFAULT_WAIT_S = 5.0
HEARTBEAT_S = 15.0
HOSTS = (".slack.com",)

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
        self._http = HttpApi(NAME, config.base_url)
        self._client: AsyncWebClient | None = None

    @property
    def account_id(self) -> str:
        """Return the numbers of workspace and bot, which stay the same in a new token."""
        _, *numbers = self._token.split("-")
        if len(numbers) > 2:
            return "-".join(numbers[:2])
        return hashlib.sha256(self._token.encode()).hexdigest()[:16]  # the rest may be the secret

    async def __aenter__(self) -> Self:
        client = await self._load()
        client.session = (await self._http.__aenter__()).session
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.__aexit__()

    async def call(self, method: str, /, **fields: Any) -> dict[str, Any]:
        """Call a method of slack-sdk's client, such as `chat_postMessage`, while connected."""
        _ = self._http.session
        return await self.look_up(method, **fields)

    async def look_up(self, method: str, /, **fields: Any) -> dict[str, Any]:
        """Call a method; unless connected, over a connection of its own."""
        client = await self._load()
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            with self._http.translated():
                response = await getattr(client, method)(**fields)
        except SlackApiError as error:
            # Not the error's own text: it contains the whole response.
            raise _translate(error.response) from None
        except (SlackClientError, ValueError) as error:
            raise OutcomeUnknown(f"slack: {error}") from error
        return response.data

    async def socket_url(self) -> str:
        found = await self.call("apps_connections_open", app_token=self._app_token)
        return found["url"]

    @asynccontextmanager
    async def socket(self) -> AsyncGenerator["aiohttp.ClientWebSocketResponse"]:
        """Open a connection of Socket Mode."""
        async with self._http.socket(await self.socket_url(), heartbeat=HEARTBEAT_S) as socket:
            yield socket

    def download(self, url: str) -> AsyncGenerator[bytes]:
        """Yield a private file's content; what the token may not read leads to a page."""
        headers = {"Authorization": f"Bearer {self._token}"}
        return self._http.download(url, HOSTS, headers=headers)

    async def _load(self) -> "AsyncWebClient":
        if self._client is None:
            # The library takes half a second to load.
            self._client = await asyncio.to_thread(
                _make_client, self._token, self._http.base_url + "/"
            )
        return self._client


def _make_client(token: str, base_url: str) -> "AsyncWebClient":
    from slack_sdk.web.async_client import AsyncWebClient

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
        return AccountRefused(
            f"slack refuses the app ({code}); check SLACK_BOT_TOKEN and SLACK_APP_TOKEN"
        )
    if code == "missing_scope":
        needed = data.get("needed", "")
        return Refused(f"slack: the app lacks the scope {needed}; add it and reinstall the app")
    if code in _GONE:
        return MessageGone(f"slack: {code}")
    if not code or code in _FAULTS or status >= 500:
        return OutcomeUnknown(f"slack failed ({code or status})")
    return Refused(f"slack: {code}")
