"""The seam of providers at which one logs in with a device code."""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from enum import Enum, auto
from typing import Any, Protocol

from msgspec import Struct
from pydantic import SecretStr

from agent_service.oauth.http import Answer
from agent_service.oauth.tokens import Login, LoginFailed, LoginNeeded, LoginUsedUp, NotPaid
from services.logins import PROVIDERS, DeviceCode

USED_UP = frozenset(
    {
        "invalid_grant",
        "refresh_token_expired",
        "refresh_token_reused",
        "refresh_token_invalidated",
        "refresh_token_revoked",
    }
)
"""What providers say of a refresh token that will never do again."""

_NOT_PAID = frozenset({"subscription_required", "insufficient_credits"})


class Wait(Enum):
    """Why there is no login yet."""

    PENDING = auto()
    SLOWER = auto()
    """Nobody has confirmed the code, and the provider wants to be asked less often."""


class Asked(Struct, frozen=True):
    """A device code that waits to be confirmed."""

    shown: DeviceCode
    secret: SecretStr
    """Tells the provider which code is meant."""
    interval_s: float


class Issuer(Protocol):
    """A provider at which one logs in with a device code."""

    name: str
    """In commands and settings."""
    entry: str
    """In auth.json."""

    async def begin(self) -> Asked:
        """Ask for a code; raises LoginFailed or LoginUnavailable, as all of these do."""
        ...

    async def poll(self, asked: Asked) -> Login | Wait:
        """Ask whether the code has been confirmed."""
        ...

    def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        """Make a login usable, one exchange at a time.

        Each yields the login as it is from then on, which must be kept at once: what was sent for
        it is worth nothing any more. `refused` says that it was not accepted as it is. Raises
        LoginNeeded where the provider takes it no longer.
        """
        ...

    async def revoke(self, login: Login) -> bool:
        """Tell the provider that the login is over; False where it cannot be told."""
        ...

    def read(self, entry: Mapping[str, Any]) -> Login | None:
        """The login that auth.json has; None where there is none in it."""
        ...

    def written(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The entry with the login in it, and all else that it has."""
        ...


def not_logged_in(name: str) -> LoginNeeded:
    """The error where the home has no login."""
    return LoginNeeded(f"There is no login at {PROVIDERS[name]}: run hermes login {name}")


def refused(name: str, answer: Answer) -> LoginFailed | LoginNeeded:
    """The error for an answer that is a no."""
    title = PROVIDERS[name]
    if answer.code in USED_UP or answer.status == 401:
        kind = LoginUsedUp if answer.code in USED_UP else LoginNeeded
        return kind(f"{title} takes the login of this home no more: run hermes login {name}")
    if answer.code in _NOT_PAID:
        return NotPaid(f"{title} wants a subscription with credit left: {answer.words}")
    return LoginFailed(f"{title} says no: {answer.words}")
