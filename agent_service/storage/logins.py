"""Logins in the database, sealed with a key that is not stored there.

Rows are named by the key: with another key there is no login, and people log in again.
"""

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.schema import sealed_login
from services.database import Database, upsert
from services.database.leases import Fenced, Lease, Owner
from services.errors import FailedPrecondition, Unavailable

LOCK_WAIT_S = 45.0
"""How long another replica may take to renew a login: two exchanges and a margin."""

LEASE_S = LOCK_WAIT_S + 15.0
"""Longer than any live holder needs: an expired holder would lose the provider's new tokens."""

_DATA = sa.select(sealed_login.c.data).where(sealed_login.c.id == sa.bindparam("of"))
_PUT = upsert(sealed_login, ["id"], ["data"])


class _Seal:
    def __init__(self, key: SecretStr) -> None:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(SHA256(), 32, salt=None, info=b"hermes logins")
        secret = derived.derive(key.get_secret_value().encode())
        self.name = sha256(secret).hexdigest()
        self._fernet = Fernet(base64.urlsafe_b64encode(secret))

    def closed(self, document: Mapping[str, Any]) -> bytes:
        return self._fernet.encrypt(json.dumps(document).encode())

    def opened(self, data: bytes) -> dict[str, Any]:
        from cryptography.fernet import InvalidToken

        try:
            document: dict[str, Any] = json.loads(self._fernet.decrypt(data))
        except InvalidToken:
            raise FailedPrecondition("the logins in the agent's database are damaged") from None
        return document


class LoginRows:
    """A sealed document that all replicas with the same key share."""

    name = "the agent's database"

    def __init__(
        self, database: Database, owner: Owner, key: SecretStr, *, wait_s: float = LOCK_WAIT_S
    ) -> None:
        self._seal = _Seal(key)
        self._database = database
        self._locks = RowLocks(database, owner, wait_s, lease_s=LEASE_S)
        self._held: Lease | None = None

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Lock logins against changes by other replicas."""
        async with self._locks.hold("", f"logins/{self._seal.name}") as lease:
            self._held = lease
            try:
                yield
            finally:
                self._held = None

    async def read(self) -> dict[str, Any]:
        sealed: bytes | None = await self._database.read(
            lambda conn: conn.execute(_DATA, {"of": self._seal.name}).scalar_one_or_none()
        )
        if sealed is None:
            return {}
        return self._seal.opened(sealed)

    async def write(self, document: Mapping[str, Any]) -> None:
        held, sealed = self._held, self._seal.closed(document)
        assert held is not None, "the logins are locked"

        def put(conn: sa.Connection) -> None:
            self._locks.fence(conn, held)
            conn.execute(_PUT, {"id": self._seal.name, "data": sealed})

        try:
            await self._database.write(put)
        except Fenced:
            raise Unavailable("another replica has taken the logins meanwhile; try again") from None
