"""A login that stays usable: renewed in time, once for all processes that share the home."""

import logging
from contextlib import aclosing

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.oauth.errors import LoginUnavailable, LoginUsedUp
from agent_service.oauth.issuer import Issuer, not_logged_in
from agent_service.oauth.store import LoginStore
from agent_service.oauth.tokens import NOTHING, Login, Token
from services.clock import Clock
from services.errors import Unavailable
from services.lifecycle import unbroken
from services.logins import PROVIDERS

_log = logging.getLogger(__name__)


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
            raise not_logged_in(self._issuer.name)
        return login

    async def _renewed(self, refused: SecretStr | None) -> Login:
        async with self._store.locked():
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
                    await self._keep(login, renewed)
                    login = renewed
        except LoginUsedUp:
            # Nobody has to ask again with what is used up.
            over = Token(login.access.value, self._clock.now())
            ended = replace(login, access=over, refresh=NOTHING, key=Token())
            await self._keep(login, ended)
            raise
        _log.info("login at %s renewed", PROVIDERS[self._issuer.name])
        return login

    async def _keep(self, before: Login, login: Login) -> None:
        await self._store.keep_renewed(self._issuer, before, login, self._clock.now())
