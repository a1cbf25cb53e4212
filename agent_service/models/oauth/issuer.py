"""The common part of providers that use device code logins."""

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
"""Error codes of a refresh token that is permanently invalid."""

_NOT_PAID = frozenset({"subscription_required", "insufficient_credits"})
_CODE_S, _INTERVAL_S = 900.0, 5.0


class Wait(Enum):
    """Why there is no login yet."""

    PENDING = auto()
    SLOWER = auto()
    """Nobody has confirmed the code, and the provider asks to be polled less often."""


class PendingDeviceCode(Struct, frozen=True):
    """A device code that waits to be confirmed."""

    shown: DeviceCode
    secret: SecretStr
    """Identifies the code to the provider."""
    interval_s: float


class Issuer(ABC):
    """A provider with device code logins; requests raise LoginFailed or LoginUnavailable."""

    name: ClassVar[str]
    """The name in commands and settings."""
    entry: ClassVar[str]
    """The key in auth.json."""

    def __init__(self, clock: Clock, url: str) -> None:
        self._clock = clock
        self._url = url
        self._title = PROVIDERS[self.name]
        self._server = LoginServer(self._title, url)

    @abstractmethod
    async def begin(self) -> PendingDeviceCode:
        """Request a code."""

    @abstractmethod
    async def poll(self, asked: PendingDeviceCode) -> Login | Wait:
        """Ask whether the code was confirmed."""

    @abstractmethod
    def renewals(self, login: Login, *, refused: bool) -> AsyncGenerator[Login]:
        """Make a login usable; each exchange yields a login, which must be stored at once.

        An exchange invalidates the previous tokens. `refused` means that the current token was
        rejected. Raises LoginNeeded if the provider no longer accepts the login.
        """

    @abstractmethod
    async def revoke(self, login: Login) -> bool:
        """Revoke the login; False if the provider has no way to do so."""

    @abstractmethod
    def read(self, entry: Mapping[str, Any]) -> Login | None:
        """The login in an entry of auth.json; None if it has none."""

    @abstractmethod
    def add_login(self, login: Login, entry: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The entry with the login added; other fields stay."""

    def _asked(self, answer: Answer, url: str, secret: str) -> PendingDeviceCode:
        """The code in an answer, to be confirmed at a URL."""
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
        """Why there is no login yet; raises LoginFailed if there will be none."""
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
        if not answer.ok:
            raise self._refused(answer)
        return answer.body

    def _after(self, told: Mapping[str, Any], usual_s: float) -> datetime:
        return self._clock.now() + timedelta(seconds=seconds(told.get("expires_in"), usual_s))

    def _refused(self, answer: Answer) -> LoginFailed | LoginNeeded:
        if answer.code in USED_UP or answer.status == 401:
            kind = LoginUsedUp if answer.code in USED_UP else LoginNeeded
            return kind(
                f"{self._title} takes the login of this home no more: run hermes login {self.name}"
            )
        if answer.code in _NOT_PAID:
            return NotPaid(f"{self._title} wants a subscription with credit left: {answer.words}")
        return LoginFailed(f"{self._title} says no: {answer.words}")
