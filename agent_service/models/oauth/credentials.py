"""Device code logins, and their renewal for all processes of a home."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.models.oauth.issuer import Issuer, PendingDeviceCode, Wait
from agent_service.models.oauth.store import LoginStore
from agent_service.models.oauth.tokens import (
    NOTHING,
    Login,
    LoginFailed,
    LoginNeeded,
    LoginUnavailable,
    LoginUsedUp,
    Token,
)
from services.clock import Clock
from services.errors import HermesError, Unavailable
from services.lifecycle import unbroken
from services.runtime.logins import PROVIDERS

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

SLOWER_S = 5.0
"""Added to the polling interval whenever the provider says slow_down (RFC 8628)."""
KEEP_TRIES, KEEP_WAIT_S = 10, 1.0
_SHORTEST_S, _LONGEST_S = 1.0, 60.0


class Credentials:
    """The login at one provider, ready for the next request."""

    def __init__(self, issuer: Issuer, store: LoginStore, clock: Clock) -> None:
        self._issuer = issuer
        self._store = store
        self._clock = clock

    async def current(self) -> Login:
        """The login, renewed before it expires; the old one if renewal fails before then.

        Raises LoginNeeded, or LoginUnavailable if it expired and cannot be renewed now.
        """
        login = await self._read()
        if login.bearer.good_at(self._clock.now()):
            return login
        try:
            return await self._renewed(refused=None)
        except (LoginUnavailable, Unavailable) as error:
            if not login.bearer.lasts_at(self._clock.now()):
                raise
            _log.warning("%s; the login is good for a little longer", error.message)
            return login

    async def instead_of(self, refused: SecretStr) -> Login:
        """A login to use after one was refused: renewed by another process, or now."""
        return await self._renewed(refused)

    async def stored(self) -> Login | None:
        return await self._store.read(self._issuer)

    async def _read(self) -> Login:
        login = await self.stored()
        if login is None:
            name = self._issuer.name
            raise LoginNeeded(f"There is no login at {PROVIDERS[name]}: run hermes login {name}")
        return login

    async def _renewed(self, refused: SecretStr | None) -> Login:
        async with self._store.place.locked():
            # Another process may have renewed it, which uses up the old refresh token.
            login = await self._read()
            is_refused = login.bearer.value == refused
            if not is_refused and login.bearer.good_at(self._clock.now()):
                return login
            # New tokens must be stored, or the login can never be renewed again.
            return await unbroken(self._renew(login, refused=is_refused))

    async def _renew(self, login: Login, *, refused: bool) -> Login:
        try:
            async with aclosing(self._issuer.renewals(login, refused=refused)) as renewals:
                async for renewed in renewals:
                    await self._keep(renewed)
                    login = renewed
        except LoginUsedUp:
            # Store that the login is used up, so that nobody tries again.
            over = Token(login.access.value, self._clock.now())
            ended = replace(login, access=over, refresh=NOTHING, key=Token())
            await self._keep(ended)
            raise
        _log.info("login at %s renewed", PROVIDERS[self._issuer.name])
        return login

    async def _keep(self, login: Login) -> None:
        """Store an exchanged login, which cannot be exchanged again; if that fails, use it once."""
        keeping = partial(self._store.keep, self._issuer, login, self._clock.now())
        try:
            await self._patiently(keeping)
        except HermesError as error:
            name = PROVIDERS[self._issuer.name]
            _log.error("the new login at %s is not stored, log in again: %s", name, error)

    async def log_in(self, asked: PendingDeviceCode) -> Login:
        """Wait until the code is confirmed, then store the login, replacing any earlier one.

        Retries while the provider or the store is unavailable, to avoid a second confirmation.
        LoginFailed if the code was refused or has expired.
        """
        login = await self._confirmed(asked)
        before = await self._patiently(partial(self._put, login))
        if before is not None and before.refresh != login.refresh:
            await self._issuer.revoke(before)
        return login

    async def forget(self) -> tuple[bool, bool]:
        """Forget the login; returns whether there was one and whether the provider revoked it."""
        async with self._store.place.locked():
            login = await self.stored()
            if login is None:
                return False, False
            await unbroken(self._store.forget(self._issuer, self._clock.now()))
        return True, await self._issuer.revoke(login)

    async def _confirmed(self, asked: PendingDeviceCode) -> Login:
        pause_s = max(asked.interval_s, _SHORTEST_S)
        while self._clock.now() < asked.shown.expires_at:
            await self._clock.sleep(pause_s)
            try:
                found = await self._issuer.poll(asked)
            except LoginUnavailable:
                found = Wait.SLOWER
            if isinstance(found, Login):
                return found
            if found is Wait.SLOWER:
                pause_s = min(pause_s + SLOWER_S, _LONGEST_S)
        raise LoginFailed("The code has expired before anybody confirmed it: begin anew")

    async def _put(self, login: Login) -> Login | None:
        async with self._store.place.locked():
            before = await self.stored()
            await unbroken(self._store.keep(self._issuer, login, self._clock.now()))
        return before

    async def _patiently(self, keeping: Callable[[], Awaitable[_T]]) -> _T:
        for _ in range(KEEP_TRIES - 1):
            try:
                return await keeping()
            except HermesError as error:
                _log.warning("a login is not stored yet: %s", error)
                await self._clock.sleep(KEEP_WAIT_S)
        return await keeping()
