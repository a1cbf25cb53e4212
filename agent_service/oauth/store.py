"""Logins by provider, in one document that other programs may keep theirs in too."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, Protocol, cast

from agent_service.oauth.issuer import Issuer
from agent_service.oauth.tokens import Login
from services.redact import Redactor

LOCK_WAIT_S = 45.0
"""How long somebody else may take to renew a login: two exchanges, and some more."""

_VERSION = 1


class LoginPlace(Protocol):
    """Where the document is."""

    @property
    def name(self) -> str:
        """The place in words."""
        ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Keep everybody else from changing it meanwhile; Unavailable when that takes too long."""
        ...

    async def read(self) -> dict[str, Any]:
        """The document; empty where there is none."""
        ...

    async def write(self, document: Mapping[str, Any]) -> None:
        """Write it anew; only while `locked`."""
        ...


class LoginStore:
    """The logins of a place."""

    def __init__(self, place: LoginPlace, redactor: Redactor | None = None) -> None:
        """`redactor` hears of every token."""
        self.place = place
        self._redactor = redactor or Redactor()

    async def read(self, issuer: Issuer) -> Login | None:
        """The login at a provider, as it is at the moment."""
        login = issuer.read(_entry(await self.place.read(), issuer.entry))
        if login is not None:
            self._hide(login)
        return login

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep everybody else from changing logins meanwhile."""
        async with self.place.locked():
            yield

    async def keep(self, issuer: Issuer, login: Login, now: datetime) -> None:
        """Write a login, and leave all else as it is; only while `locked`."""
        self._hide(login)
        document = await self.place.read()
        entry = issuer.written(login, _entry(document, issuer.entry), now)
        document["providers"] = {**_providers(document), issuer.entry: entry}
        await self._write(document, now)

    async def forget(self, issuer: Issuer, now: datetime) -> None:
        """Take a login out; only while `locked`."""
        document = await self.place.read()
        others = {k: v for k, v in _providers(document).items() if k != issuer.entry}
        if document.get("active_provider") == issuer.entry:
            document["active_provider"] = None
        document["providers"] = others
        await self._write(document, now)

    def _hide(self, login: Login) -> None:
        for secret in (login.access.value, login.refresh, login.key.value):
            self._redactor.add_passing_secret(secret.get_secret_value())

    async def _write(self, document: dict[str, Any], now: datetime) -> None:
        await self.place.write({"version": _VERSION, **document, "updated_at": now.isoformat()})


def _providers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("providers")
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _entry(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = _providers(document).get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}
