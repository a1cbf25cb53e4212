"""How one logs in with a device code, and how a login stays usable for all processes of a home."""

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
"""By how much the provider is asked less often each time that it wants that (RFC 8628)."""
KEEP_TRIES, KEEP_WAIT_S = 10, 1.0
_SHORTEST_S, _LONGEST_S = 1.0, 60.0


class Credentials:
    """The login at one provider, as it is good for the next request."""

    def __init__(self, issuer: Issuer, store: LoginStore, clock: Clock) -> None:
        self._issuer = issuer
        self._store = store
        self._clock = clock

    async def current(self) -> Login:
        """The login, renewed before it ends; where that fails, as it is until then.

        LoginNeeded says how to log in; LoginUnavailable that it cannot be renewed at the moment.
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
        """The login after it was not accepted: what others have made of it since, or a new one."""
        return await self._renewed(refused)

    async def stored(self) -> Login | None:
        """The login as the home has it; None where there is none."""
        return await self._store.read(self._issuer)

    async def _read(self) -> Login:
        login = await self.stored()
        if login is None:
            name = self._issuer.name
            raise LoginNeeded(f"There is no login at {PROVIDERS[name]}: run hermes login {name}")
        return login

    async def _renewed(self, refused: SecretStr | None) -> Login:
        async with self._store.place.locked():
            # Somebody else may have renewed it, and what it was renewed with is used up.
            login = await self._read()
            is_refused = login.bearer.value == refused
            if not is_refused and login.bearer.good_at(self._clock.now()):
                return login
            # What the provider has given must be kept, or nobody can ever renew the login again.
            return await unbroken(self._renew(login, refused=is_refused))

    async def _renew(self, login: Login, *, refused: bool) -> Login:
        try:
            async with aclosing(self._issuer.renewals(login, refused=refused)) as renewals:
                async for renewed in renewals:
                    await self._keep(renewed)
                    login = renewed
        except LoginUsedUp:
            # Nobody has to ask again with what is used up.
            over = Token(login.access.value, self._clock.now())
            ended = replace(login, access=over, refresh=NOTHING, key=Token())
            await self._keep(ended)
            raise
        _log.info("login at %s renewed", PROVIDERS[self._issuer.name])
        return login

    async def _keep(self, login: Login) -> None:
        """Store what a login was exchanged for, which cannot be done again; else use it once."""
        keeping = partial(self._store.keep, self._issuer, login, self._clock.now())
        try:
            await self._patiently(keeping)
        except HermesError as error:
            name = PROVIDERS[self._issuer.name]
            _log.error("the new login at %s is not stored, log in again: %s", name, error)

    async def log_in(self, asked: PendingDeviceCode) -> Login:
        """Wait until the code has been confirmed, and keep the login in place of any before it.

        LoginFailed when it was refused or has expired. A provider or a place that is away for a
        while is asked again: nobody likes to confirm a second code.
        """
        login = await self._confirmed(asked)
        before = await self._patiently(partial(self._put, login))
        if before is not None and before.refresh != login.refresh:
            await self._issuer.revoke(before)
        return login

    async def forget(self) -> tuple[bool, bool]:
        """Forget the login: whether there was one, and whether the provider knows it is over."""
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
        """Keep a login; returns the one before it."""
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
