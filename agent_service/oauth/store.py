"""auth.json of a home: logins by provider, for this program and older ones, and its lock."""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from agent_service.oauth.issuer import Issuer
from agent_service.oauth.tokens import Login
from services.errors import FailedPrecondition, Unavailable
from services.home import replace_file
from services.redact import Redactor

LOCK_WAIT_S = 45.0
"""How long somebody else may take to renew a login: two exchanges, and some more."""

_LOOK_S = 0.02
_PRIVATE = 0o600
_VERSION = 1
_MAX_BYTES = 4 * 1024 * 1024


class LoginStore:
    """The file in which logins are kept, readable for its owner alone."""

    def __init__(
        self, path: Path, redactor: Redactor | None = None, *, lock_wait_s: float = LOCK_WAIT_S
    ) -> None:
        """`redactor` hears of every token."""
        self._redactor = redactor or Redactor()
        self.path = path
        self._lock_wait_s = lock_wait_s

    async def read(self, issuer: Issuer) -> Login | None:
        """The login at a provider, as it is at the moment."""
        login = issuer.read(_entry(await asyncio.to_thread(_read, self.path), issuer.entry))
        if login is not None:
            self._hide(login)
        return login

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep every other process of the home from changing logins meanwhile."""
        # Older programs lock this file as well.
        path = self.path.with_suffix(".lock")
        lock = await asyncio.to_thread(_open, path)
        try:
            await _lock(lock, path, self._lock_wait_s)
            yield
        finally:
            os.close(lock)  # which lets go of it

    async def keep(self, issuer: Issuer, login: Login, now: datetime) -> None:
        """Write a login, and leave all else as it is; only while `locked`."""
        self._hide(login)
        await asyncio.to_thread(self._keep, issuer, login, now)

    async def forget(self, issuer: Issuer, now: datetime) -> None:
        """Take a login out; only while `locked`."""
        await asyncio.to_thread(self._forget, issuer, now)

    def _hide(self, login: Login) -> None:
        for secret in (login.access.value, login.refresh, login.key.value):
            self._redactor.add_passing_secret(secret.get_secret_value())

    def _keep(self, issuer: Issuer, login: Login, now: datetime) -> None:
        document = _read(self.path)
        entry = issuer.written(login, _entry(document, issuer.entry), now)
        document["providers"] = {**_providers(document), issuer.entry: entry}
        self._write(document, now)

    def _forget(self, issuer: Issuer, now: datetime) -> None:
        document = _read(self.path)
        others = {k: v for k, v in _providers(document).items() if k != issuer.entry}
        if document.get("active_provider") == issuer.entry:
            document["active_provider"] = None
        document["providers"] = others
        self._write(document, now)

    def _write(self, document: dict[str, Any], now: datetime) -> None:
        told = {"version": _VERSION, **document, "updated_at": now.isoformat()}
        replace_file(self.path, json.dumps(told, indent=2) + "\n", _PRIVATE)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be read: {error.strerror}") from None
    try:
        document: Any = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or len(data) > _MAX_BYTES:
        # It may have logins of other programs, so it is not for us to write it anew.
        raise FailedPrecondition(f"{path} is damaged: repair it, or move it away and log in again")
    return cast("dict[str, Any]", document)


def _providers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("providers")
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _entry(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = _providers(document).get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, _PRIVATE)
    except OSError as error:
        raise FailedPrecondition(f"{path} cannot be locked: {error.strerror}") from None


async def _lock(lock: int, path: Path, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise Unavailable(f"another program holds {path}; try again") from None
