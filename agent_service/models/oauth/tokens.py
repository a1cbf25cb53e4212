"""Tokens and errors of logins; no error contains a token.

HermesError (services.errors)
├── LoginNeeded           there is no login, or the provider no longer accepts it: log in (again)
│   └── LoginUsedUp       it can never be renewed
├── LoginFailed           the provider refused; the message has its words
│   └── NotPaid           the account has no subscription or no credit left
└── LoginUnavailable      the provider cannot be reached at the moment
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec import Struct, field
from pydantic import SecretStr

from services.errors import FailedPrecondition, Reason, ServiceUnavailable
from services.validation import json_object


class LoginNeeded(FailedPrecondition):
    """There is no login, or it is no longer accepted; the message says how to log in."""

    default_reason = Reason.MODEL_AUTH


class LoginUsedUp(LoginNeeded):
    """The refresh token is revoked, expired or already used."""


class LoginFailed(FailedPrecondition):
    """The provider refused."""

    default_reason = Reason.MODEL_AUTH


class NotPaid(LoginFailed):
    """The account has no subscription or no credit left."""

    default_reason = Reason.MODEL_BILLING


class LoginUnavailable(ServiceUnavailable):
    """The provider is unreachable or fails; a retry may succeed."""


EARLY = timedelta(minutes=2)
"""Tokens are replaced this long before they expire, so that none expires in transit."""

NOTHING = SecretStr("")


class Token(Struct, frozen=True):
    """A secret with an expiry; empty if there is none."""

    value: SecretStr = NOTHING
    expires_at: datetime | None = None
    """None if unknown."""

    def __bool__(self) -> bool:
        return bool(self.value.get_secret_value())

    def good_at(self, moment: datetime) -> bool:
        """Whether the token exists and does not expire at or soon after the moment."""
        return self.lasts_at(moment + EARLY)

    def lasts_at(self, moment: datetime) -> bool:
        """Whether the token exists and has not expired at the moment."""
        return bool(self) and (self.expires_at is None or self.expires_at > moment)


class Login(Struct, frozen=True):
    """The current state of a person's login at a provider."""

    access: Token
    refresh: SecretStr = NOTHING
    """Valid for one new access token; empty once used up."""
    key: Token = Token()
    """Signs requests instead of the access token, if the provider uses separate keys."""
    wants_key: bool = False
    scope: str = ""
    """What the access token may be used for, in the provider's words."""
    base_url: str = ""
    """Base URL of the models; empty is the provider's default."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed, as far as known."""
        return bool(self.refresh.get_secret_value())

    @property
    def bearer(self) -> Token:
        return self.key if self.wants_key else self.access


def claims(token: str) -> Mapping[str, Any]:
    """The claims of a JSON web token, unverified; empty if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        said = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except ValueError:
        return {}
    return json_object(said) or {}


def end_of(token: str) -> datetime | None:
    """The expiry of a JSON web token, if it has one."""
    return moment(claims(token).get("exp"))


def moment(told: object) -> datetime | None:
    """A time from Unix seconds or ISO 8601; None for anything else."""
    try:
        if isinstance(told, str):
            found = datetime.fromisoformat(told)
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        if isinstance(told, int | float) and not isinstance(told, bool):
            return datetime.fromtimestamp(told, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def seconds(told: object, otherwise: float) -> float:
    """A number of seconds, which some providers send as text."""
    try:
        found = float(cast("str", told))
    except (TypeError, ValueError):
        return otherwise
    return found if 0 <= found < 1e9 else otherwise


def text(told: object) -> str:
    """Stripped text; empty for anything else."""
    return told.strip() if isinstance(told, str) else ""
