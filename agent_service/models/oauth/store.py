"""The store of logins: the protocol, and `auth.json` of a home with its lock."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from agent_service.models.oauth.issuer import Issuer
from agent_service.models.oauth.tokens import Login
from agent_service.storage.logins import LOCK_WAIT_S
from services.errors import FailedPrecondition
from services.home.file_lock import locked_by
from services.home.paths import replace_file
from services.redaction.redactor import Redactor
from services.validation import json_object, object_of

_VERSION = 1


class LoginPlace(Protocol):
    """The document's storage."""

    @property
    def name(self) -> str: ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Lock it against changes; Unavailable if that takes too long."""
        ...

    async def read(self) -> dict[str, Any]: ...

    async def write(self, document: Mapping[str, Any]) -> None:
        """Replace the document; only while `locked`."""
        ...


class LoginStore:
    """Reads and writes the logins of a place, and tells the redactor their tokens."""

    def __init__(self, place: LoginPlace, redactor: Redactor | None = None) -> None:
        """`redactor` is told every token."""
        self.place = place
        self._redactor = redactor or Redactor()

    async def read(self, issuer: Issuer) -> Login | None:
        login = issuer.read(_entry(await self.place.read(), issuer.entry))
        if login is not None:
            self._hide(login)
        return login

    async def keep(self, issuer: Issuer, login: Login, now: datetime) -> None:
        """Write a login and leave everything else unchanged; only while `locked`."""
        self._hide(login)
        document = await self.place.read()
        entry = issuer.add_login(login, _entry(document, issuer.entry), now)
        document["providers"] = {**_providers(document), issuer.entry: entry}
        await self._write(document, now)

    async def forget(self, issuer: Issuer, now: datetime) -> None:
        document = await self.place.read()
        others = {k: v for k, v in _providers(document).items() if k != issuer.entry}
        if document.get("active_provider") == issuer.entry:
            document["active_provider"] = None
        document["providers"] = others
        await self._write(document, now)

    async def read_entry(self, group: str, name: str) -> Mapping[str, Any]:
        """Return a login of another kind; empty if there is none."""
        return object_of(object_of((await self.place.read()).get(group)).get(name))

    async def keep_entry(
        self, group: str, name: str, entry: Mapping[str, Any], secrets: Iterable[str], now: datetime
    ) -> None:
        """Store such a login, or forget it if it is empty."""
        for secret in secrets:
            self._redactor.known.add_passing(secret)
        async with self.place.locked():
            document = await self.place.read()
            others = {k: v for k, v in object_of(document.get(group)).items() if k != name}
            document[group] = {**others, **({name: dict(entry)} if entry else {})}
            await self._write(document, now)

    def _hide(self, login: Login) -> None:
        for secret in (login.access.value, login.refresh, login.key.value):
            self._redactor.known.add_passing(secret.get_secret_value())

    async def _write(self, document: dict[str, Any], now: datetime) -> None:
        await self.place.write({"version": _VERSION, **document, "updated_at": now.isoformat()})


def _providers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(document.get("providers"))


def _entry(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return object_of(_providers(document).get(name))


_PRIVATE = 0o600
_MAX_BYTES = 4 * 1024 * 1024


class LoginFile:
    """A file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        # Other programs that share the home lock this file too.
        path = self.path.with_suffix(".lock")
        async with locked_by(path, str(path), LOCK_WAIT_S):
            yield

    async def read(self) -> dict[str, Any]:
        return await asyncio.to_thread(_read, self.path)

    async def write(self, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=2) + "\n"
        await asyncio.to_thread(replace_file, self.path, text, _PRIVATE)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be read: {error.strerror}") from None
    document = json_object(data) if data.strip() else {}
    if document is None or len(data) > _MAX_BYTES:
        # It may hold logins of other programs, so do not replace it.
        raise FailedPrecondition(f"{path} is damaged: repair it, or move it away and log in again")
    return document
