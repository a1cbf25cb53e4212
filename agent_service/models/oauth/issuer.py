"""A provider at which one logs in with a device code: what all of them have in common."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.oauth.http import Answer, LoginServer, fit_for_tokens
from agent_service.models.oauth.tokens import (
    Login,
    LoginFailed,
    LoginNeeded,
    LoginUsedUp,
    NotPaid,
    Token,
    moment,
    seconds,
    text,
)
from services.clock import Clock
from services.runtime.logins import PROVIDERS, DeviceCode

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
_CODE_S, _INTERVAL_S = 900.0, 5.0


class Wait(Enum):
    """Why there is no login yet."""

    PENDING = auto()
    SLOWER = auto()
    """Nobody has confirmed the code, and the provider wants to be asked less often."""


class PendingDeviceCode(Struct, frozen=True):
    """A device code that waits to be confirmed."""

    shown: DeviceCode
    secret: SecretStr
    """Tells the provider which code is meant."""
    interval_s: float


class Issuer(ABC):
    """A provider at which one logs in with a device code.

    What asks the provider raises LoginFailed or LoginUnavailable.
    """

    name: ClassVar[str]
    """In commands and settings."""
    entry: ClassVar[str]
    """In auth.json."""

    def __init__(self, clock: Clock, url: str) -> None:
        """`url` is where one logs in."""
        self._clock = clock
        self._url = url
        self._title = PROVIDERS[self.name]
        self._server = LoginServer(self._title, url)

    @abstractmethod
    async def begin(self) -> PendingDeviceCode:
        """Ask for a code."""

    @abstractmethod
    async def poll(self, asked: PendingDeviceCode) -> Login | Wait:
        """Ask whether the code has been confirmed."""

    @abstractmethod
    def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        """Make a login usable, one exchange at a time.

        Each yields the login as it is from then on, which must be kept at once: what was sent for
        it is worth nothing any more. `refused` says that it was not accepted as it is. Raises
        LoginNeeded where the provider takes it no longer.
        """

    @abstractmethod
    async def revoke(self, login: Login) -> bool:
        """Tell the provider that the login is over; False where it cannot be told."""

    @abstractmethod
    def read(self, entry: Mapping[str, Any]) -> Login | None:
        """The login that auth.json has; None where there is none in it."""

    @abstractmethod
    def written(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The entry with the login in it, and all else that it has."""

    def _asked(self, answer: Answer, url: str, secret: str) -> PendingDeviceCode:
        """The code that an answer has, to be confirmed at a URL."""
        told = self._accepted(answer)
        code = text(told.get("user_code")) or text(told.get("usercode"))
        if not (code and secret and fit_for_tokens(url)):
            raise LoginFailed(f"{self._title} gave no code that could be confirmed")
        ends = moment(told.get("expires_at")) or self._after(told, _CODE_S)
        shown = DeviceCode(code, url, ends)
        return PendingDeviceCode(
            shown, SecretStr(secret), seconds(told.get("interval"), _INTERVAL_S)
        )

    def _waits(self, answer: Answer, *, is_pending: bool) -> Wait:
        """Why there is no login yet; LoginFailed where there will be none."""
        if "denied" in answer.code:
            raise LoginFailed("The login was refused in the browser")
        if "expired" in answer.code:
            raise LoginFailed("The code is no longer good: begin anew")
        if answer.code == "slow_down":
            return Wait.SLOWER
        if not is_pending:
            raise self._refused(answer)
        return Wait.PENDING

    def _granted(self, answer: Answer, before: Login) -> Login:
        """The login with the tokens of an answer, whose access token ends nobody knows when."""
        told = self._accepted(answer)
        access, refresh = text(told.get("access_token")), text(told.get("refresh_token"))
        if not access:
            raise LoginFailed(f"{self._title} answered without a token")
        renewed = SecretStr(refresh) if refresh else before.refresh
        return replace(before, access=Token(SecretStr(access)), refresh=renewed)

    def _check_renewable(self, login: Login) -> None:
        if not login.renewable:
            raise self._refused(Answer(401, {}))

    def _accepted(self, answer: Answer) -> Mapping[str, Any]:
        """What an answer says; an error where it is a no."""
        if not answer.ok:
            raise self._refused(answer)
        return answer.body

    def _after(self, told: Mapping[str, Any], usual_s: float) -> datetime:
        """When what an answer has given ends, counted from now."""
        return self._clock.now() + timedelta(seconds=seconds(told.get("expires_in"), usual_s))

    def _refused(self, answer: Answer) -> LoginFailed | LoginNeeded:
        """The error for an answer that is a no."""
        if answer.code in USED_UP or answer.status == 401:
            kind = LoginUsedUp if answer.code in USED_UP else LoginNeeded
            return kind(
                f"{self._title} takes the login of this home no more: run hermes login {self.name}"
            )
        if answer.code in _NOT_PAID:
            return NotPaid(f"{self._title} wants a subscription with credit left: {answer.words}")
        return LoginFailed(f"{self._title} says no: {answer.words}")
