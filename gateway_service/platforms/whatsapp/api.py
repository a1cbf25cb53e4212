"""The Graph API of WhatsApp's Cloud API, with errors of ours."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gateway_service.errors import (
    AccountRefused,
    OutcomeUnknown,
    PlatformError,
    RateLimited,
    Refused,
)
from gateway_service.platforms.http_api import HttpApi
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from services.validation import object_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse

NAME = "whatsapp"
_LIMITS_S = {4: 60.0, 80007: 60.0, 130429: 5.0, 131048: 60.0, 131056: 6.0}
"""How long to wait after an error: WhatsApp does not tell it."""
_ACCOUNT = {0, 3, 10, 190, 131005, 131031, 131045, 133010, 368}
_FAULTS = {1, 2, 131000, 131016, 131057}
_CLOSED = 131047
WINDOW = (
    "WhatsApp delivers messages only within 24 hours after the person wrote; ask them to write, "
    "or set WHATSAPP_TEMPLATE"
)
HOSTS = (".facebook.com", ".fbsbx.com", ".whatsapp.net")


class GraphApi(HttpApi):
    """Calls the Graph API for one phone number."""

    def __init__(self, config: WhatsAppConfig) -> None:
        token = config.token.get_secret_value()
        super().__init__(NAME, config.base_url, {"Authorization": f"Bearer {token}"})
        self._number = config.phone_number_id

    async def post(self, what: str, **options: Any) -> dict[str, Any]:
        """Post messages or media of the phone number."""
        return await self.call("POST", f"/{self._number}/{what}", **options)

    def refusal(self, answer: "ClientResponse", body: Mapping[str, Any]) -> PlatformError:
        error = object_of(body.get("error"))
        code = error.get("code")
        if isinstance(code, int):
            return error_of(code, str(error.get("message")))
        return super().refusal(answer, body)


def error_of(code: int, text: str) -> PlatformError:
    """Return what an error of WhatsApp means."""
    if code in _LIMITS_S:
        wait_s = _LIMITS_S[code]
        return RateLimited(f"whatsapp wants us to wait ({code}): for {wait_s:g} s", wait_s)
    if code in _ACCOUNT or 200 <= code < 300:
        return AccountRefused(f"whatsapp refuses the account ({code}): {text}")
    if code in _FAULTS:
        return OutcomeUnknown(f"whatsapp failed ({code}): {text}")
    return Refused(WINDOW if code == _CLOSED else f"whatsapp ({code}): {text}")
