"""Who may use the HTTP API."""

import hmac
import re
from collections.abc import Mapping

from msgspec import Struct

from gateway_service.platforms.api_config import LOOPBACK, ApiConfig
from services.errors import PermissionDenied, Unauthenticated

_BEARER = "bearer "


class Guard(Struct, frozen=True):
    """Lets in who has the key, or who is on this machine if none is needed."""

    config: ApiConfig

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthenticated or PermissionDenied unless the request may be answered."""
        key = self.config.key.get_secret_value()
        if not key:
            self._check_local(headers)
        elif not hmac.compare_digest(key_of(headers).encode(), key.encode()):
            raise Unauthenticated(
                "the key is missing or not valid; send it as Authorization: Bearer KEY",
                metadata={"code": "invalid_api_key"},
            )

    def allows_origin(self, origin: str) -> bool:
        return origin in self.config.cors_origins

    def _check_local(self, headers: Mapping[str, str]) -> None:
        # Without a key, a page in this machine's browser must not reach the API, neither directly
        # nor by a name of its own that resolves to this machine.
        origin = headers.get("origin", "")
        if origin and not self.allows_origin(origin):
            raise PermissionDenied(f"pages of {origin} may not use this API")
        if any(name in headers for name in FORWARDED):
            raise PermissionDenied("without a key, the API is not served through a proxy")
        name = re.sub(r":\d*$", "", headers.get("host", "")).strip("[]")
        if name not in LOOPBACK:
            raise PermissionDenied("without a key, the API is only served to this machine")


FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What proxies add; without a key, only this machine itself may use the API."""


def key_of(headers: Mapping[str, str]) -> str:
    """Return the key that a request has, or empty."""
    given = headers.get("authorization", "")
    return given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else ""
