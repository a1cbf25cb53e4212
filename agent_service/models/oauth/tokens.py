"""Tokens of logins, and errors of logins; no error has a token in it.

HermesError (services.errors)
├── LoginNeeded           there is no login, or the provider takes it no longer: log in (again)
│   └── LoginUsedUp       it can never be renewed again
├── LoginFailed           the provider said no; the message has its words
│   └── NotPaid           the account has no subscription, or nothing left of it
└── LoginUnavailable      the provider cannot be asked at the moment
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
    """There is no login, or the provider takes it no longer; the message says how to log in."""

    default_reason = Reason.MODEL_AUTH


class LoginUsedUp(LoginNeeded):
    """What the login was to be renewed with is revoked, expired or used already."""


class LoginFailed(FailedPrecondition):
    """The provider said no."""

    default_reason = Reason.MODEL_AUTH


class NotPaid(LoginFailed):
    """The account has no subscription, or nothing left of it."""

    default_reason = Reason.MODEL_BILLING


class LoginUnavailable(ServiceUnavailable):
    """The provider cannot be reached, or fails; the same may work a moment later."""


EARLY = timedelta(minutes=2)
"""How long before its end a token is replaced, so that none ends on its way."""

NOTHING = SecretStr("")


class Token(Struct, frozen=True):
    """A secret that is good for a time; an empty one is none."""

    value: SecretStr = NOTHING
    expires_at: datetime | None = None
    """None where nobody says."""

    def __bool__(self) -> bool:
        return bool(self.value.get_secret_value())

    def good_at(self, moment: datetime) -> bool:
        """Whether there is one that does not end at that moment or soon after."""
        return self.lasts_at(moment + EARLY)

    def lasts_at(self, moment: datetime) -> bool:
        """Whether there is one that has not ended at that moment."""
        return bool(self) and (self.expires_at is None or self.expires_at > moment)


class Login(Struct, frozen=True):
    """What a provider gave when a person logged in, as it is now."""

    access: Token
    refresh: SecretStr = NOTHING
    """Makes one new access token, and is then of no more use; empty where it is used up."""
    key: Token = Token()
    """Signs requests in place of the access token, where the provider wants a key of its own."""
    wants_key: bool = False
    scope: str = ""
    """What the access token may be used for, in the provider's words."""
    base_url: str = ""
    """Where models are; empty is the provider's usual place."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """What requests have to say besides."""

    @property
    def renewable(self) -> bool:
        """Whether it can be renewed, as far as is known here."""
        return bool(self.refresh.get_secret_value())

    @property
    def bearer(self) -> Token:
        """What requests to models are signed with."""
        return self.key if self.wants_key else self.access


def claims(token: str) -> Mapping[str, Any]:
    """What a JSON web token says; nothing where it is none. Its signature is not ours to check."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        said = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except ValueError:
        return {}
    return json_object(said) or {}


def end_of(token: str) -> datetime | None:
    """When a JSON web token ends, if it is one and says so."""
    return moment(claims(token).get("exp"))


def moment(told: object) -> datetime | None:
    """A time as seconds since 1970 or in ISO 8601; None for anything else."""
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
    """A number of seconds, which some write as text."""
    try:
        found = float(cast("str", told))
    except (TypeError, ValueError):
        return otherwise
    return found if 0 <= found < 1e9 else otherwise


def text(told: object) -> str:
    """Text without blanks around it; empty for anything else."""
    return told.strip() if isinstance(told, str) else ""
