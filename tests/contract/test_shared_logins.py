"""Logins of replicas that share no disk: sealed in their database, and renewed by one at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from agent_service.models.oauth.codex import OpenAICodex
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.issuer import Issuer
from agent_service.models.oauth.store import LoginStore
from agent_service.storage.logins import LoginRows
from agent_service.storage.schema import metadata, profile_lock, sealed_login
from services.clock import SystemClock
from services.database import Database
from services.database.leases import new_owner
from services.errors import FailedPrecondition, Unavailable
from tests.fakes.clock import HastyClock
from tests.fakes.logins import FakeLogins, fake_logins

KEY, OTHER_KEY = SecretStr("k" * 32), SecretStr("o" * 32)
REPLICAS = ("one", "two", "three")


@dataclass(frozen=True, slots=True)
class Parts:
    """Somebody who is logged in, and the connections of three replicas."""

    server: FakeLogins
    issuer: Issuer
    databases: list[Database]

    def store(self, number: int, key: SecretStr = KEY) -> LoginStore:
        owner = new_owner(REPLICAS[number])
        return LoginStore(LoginRows(self.databases[number], owner, key, wait_s=5))

    def credentials(self, number: int) -> Credentials:
        return Credentials(self.issuer, self.store(number), SystemClock())

    async def log_in(self, token_s: float) -> None:
        self.server.token_s = token_s
        credentials = Credentials(self.issuer, self.store(0), HastyClock())
        await credentials.log_in(await self.issuer.begin())
        self.server.token_s = 3600

    async def sealed(self) -> list[tuple[str, bytes]]:
        rows = await self.databases[0].read(lambda conn: conn.execute(sealed_login.select()).all())
        return [(row.id, row.data) for row in rows]


@pytest.fixture
async def parts(postgres_url: str) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(Database(postgres_url, "agent")) for _ in REPLICAS
        ]
        await opened[0].migrate(metadata.create_all)
        server = await stack.enter_async_context(fake_logins())
        yield Parts(server, OpenAICodex(SystemClock(), server.url), opened)


async def test_replicas_that_renew_at_once_do_it_once(parts: Parts) -> None:
    await parts.log_in(token_s=60)  # which is as good as over
    before = (await parts.sealed())[0]
    logins = await asyncio.gather(*(parts.credentials(number).current() for number in range(3)))
    assert len({login.bearer.value.get_secret_value() for login in logins}) == 1
    assert parts.server.renewals == 1
    assert (await parts.sealed())[0] != before


async def test_nobody_reads_a_token_without_the_key(parts: Parts) -> None:
    await parts.log_in(token_s=3600)
    [(_, data)] = await parts.sealed()
    assert parts.server.issued
    assert not [token for token in parts.server.issued if token.encode() in data]
    assert KEY.get_secret_value().encode() not in data
    assert await parts.store(1).read(parts.issuer) is not None
    assert await parts.store(1, OTHER_KEY).read(parts.issuer) is None


async def test_what_was_changed_in_the_database_is_refused(parts: Parts) -> None:
    await parts.log_in(token_s=3600)
    damage = sa.update(sealed_login).values(data=b"x" * 100)
    await parts.databases[0].write(lambda conn: conn.execute(damage))
    with pytest.raises(FailedPrecondition, match="damaged"):
        await parts.store(1).read(parts.issuer)


async def test_who_comes_too_late_writes_nothing(parts: Parts) -> None:
    await parts.log_in(token_s=3600)
    late, now = parts.store(1), SystemClock().now()
    async with late.place.locked():
        over = sa.update(profile_lock).values(lease_until=now)
        await parts.databases[0].write(lambda conn: conn.execute(over))
        async with parts.store(2).place.locked():
            kept = await parts.sealed()
            with pytest.raises(Unavailable, match="another replica"):
                await late.forget(parts.issuer, now)
    assert await parts.sealed() == kept


async def test_logging_out_is_for_all_of_them(parts: Parts) -> None:
    await parts.log_in(token_s=3600)
    assert await parts.credentials(2).forget() == (True, True)
    assert await parts.store(1).read(parts.issuer) is None
