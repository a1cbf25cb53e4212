"""The Graph API of WhatsApp's Cloud API, with errors of ours."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, cast

from gateway_service.errors import (
    AccountRefused,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
    Unreachable,
)
from gateway_service.platforms.http_errors import translated
from gateway_service.platforms.whatsapp.config import WhatsAppConfig

if TYPE_CHECKING:
    import httpx

CALL_S = 30.0
CONNECT_S = 5.0

_LIMITS_S = {4: 60.0, 80007: 60.0, 130429: 5.0, 131048: 60.0, 131056: 6.0}
"""How long to wait after an error: WhatsApp does not tell it."""
_ACCOUNT = {0, 3, 10, 190, 131005, 131031, 131045, 133010, 368}
_FAULTS = {1, 2, 131000, 131016, 131057}
_CLOSED = 131047
_WINDOW = (
    "WhatsApp delivers messages only within 24 hours after the person wrote; ask them to write"
)
_HOSTS = (".facebook.com", ".fbsbx.com", ".whatsapp.net")


class GraphApi:
    """Calls the Graph API for one phone number, inside `connect` and `close`."""

    def __init__(self, config: WhatsAppConfig) -> None:
        self._config = config
        self._client: httpx.AsyncClient | None = None

    def connect(self) -> None:
        import httpx

        headers = {"Authorization": f"Bearer {self._config.token.get_secret_value()}"}
        timeout = httpx.Timeout(CALL_S, connect=CONNECT_S)
        try:
            self._client = httpx.AsyncClient(
                base_url=self._config.base_url, headers=headers, timeout=timeout
            )
        except (ImportError, ValueError) as error:
            raise AccountRefused(
                f"whatsapp cannot use the proxy that ALL_PROXY or HTTPS_PROXY names: {error}"
            ) from error

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Make a call; `options` are those of httpx."""
        client = self._opened
        with translated("whatsapp"):
            response = await client.request(method, path, **options)
        if not response.is_success:
            raise _error(response)
        try:
            return response.json()
        except ValueError as error:
            raise OutcomeUnknown("whatsapp gave an answer that cannot be read") from error

    async def post(self, what: str, **options: Any) -> dict[str, Any]:
        """Post messages or media of the phone number."""
        return await self.call("POST", f"{self._config.phone_number_id}/{what}", **options)

    async def download(self, media_id: str) -> AsyncGenerator[bytes]:
        """Yield a file's content; the token goes to Meta only."""
        import httpx

        client = self._opened
        url = httpx.URL((await self.call("GET", media_id))["url"])
        is_meta = url.scheme == "https" and f".{url.host}".endswith(_HOSTS)
        if not is_meta and url.netloc != client.base_url.netloc:
            raise Refused(f"whatsapp: a file is at {url.host}, which is not Meta's")
        with translated("whatsapp"):
            async with client.stream("GET", url) as response:
                if response.status_code != 200:
                    raise Refused(f"whatsapp does not give the file ({response.status_code})")
                async for chunk in response.aiter_bytes():
                    yield chunk

    @property
    def _opened(self) -> "httpx.AsyncClient":
        if self._client is None:
            raise Unreachable("whatsapp is not connected")
        return self._client


def _error(response: "httpx.Response") -> PlatformError:
    """Turn what the Graph API answers into an error of ours."""
    try:
        found = cast("dict[str, Any]", response.json()["error"])
        code, text = int(found["code"]), str(found["message"])
    except (ValueError, LookupError, TypeError):
        return OutcomeUnknown(f"whatsapp failed ({response.status_code})")
    return error_of(code, text)


def error_of(code: int, text: str) -> PlatformError:
    """Return what an error of WhatsApp means."""
    if code in _LIMITS_S:
        wait_s = _LIMITS_S[code]
        return RateLimited(f"whatsapp wants us to wait ({code}): for {wait_s:g} s", wait_s)
    if code in _ACCOUNT or 200 <= code < 300:
        return AccountRefused(f"whatsapp refuses the account ({code}): {text}")
    if code in _FAULTS:
        return OutcomeUnknown(f"whatsapp failed ({code}): {text}")
    return Refused(_WINDOW if code == _CLOSED else f"whatsapp ({code}): {text}")
