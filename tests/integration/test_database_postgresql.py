"""A PostgreSQL server that conflicts, restarts, or is not there."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa

from services.database import Database, DatabaseReadOnly, DatabaseUnavailable
from services.rpc.addresses import TcpAddress
from tests.fakes.pooler import pooler
from tests.support.executors import until
from tests.support.links import Fault, link_to
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, postgres_server

metadata = sa.MetaData()
counter = sa.Table(
    "counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("value", sa.Integer, nullable=False),
)
BUMP = (
    sa.update(counter)
    .where(counter.c.id == sa.bindparam("number"))
    .values(value=counter.c.value + 1)
)
VALUES = sa.select(counter.c.value).order_by(counter.c.id)


def make(connection: sa.Connection) -> None:
    metadata.create_all(connection)
    connection.execute(sa.insert(counter), [{"id": 1, "value": 0}, {"id": 2, "value": 0}])


def bump(connection: sa.Connection) -> None:
    connection.execute(BUMP, {"number": 1})


async def values(database: Database) -> list[int]:
    return list(await database.read(lambda c: c.execute(VALUES).scalars().all()))


@pytest.fixture
async def counters(empty_postgres_url: str) -> AsyncIterator[Database]:
    async with Database(empty_postgres_url, "test") as database:
        await database.migrate(make)
        yield database


async def opening_fails(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as caught:
        async with Database(url, "test"):
            pass
    assert "\n" not in caught.value.message
    assert "psycopg" not in caught.value.message
    return caught.value.message


async def test_a_server_that_is_not_there_is_told_in_one_sentence() -> None:
    port = free_port()
    message = await opening_fails(f"postgresql://me:my-password@127.0.0.1:{port}/hermes")
    assert f"127.0.0.1:{port} does not answer: Connection refused" in message
    assert "my-password" not in message


async def test_a_pooler_that_shares_connections_is_refused(
    empty_postgres_url: str, postgres: PostgresServer
) -> None:
    async with pooler(postgres.port) as port:
        message = await opening_fails(empty_postgres_url.replace(str(postgres.port), str(port)))
    assert "let the pooler pool by session" in message


async def test_a_database_that_is_not_there_is_named(postgres: PostgresServer) -> None:
    message = await opening_fails(f"postgresql://postgres@127.0.0.1:{postgres.port}/nowhere")
    assert 'database "nowhere" does not exist' in message


async def test_each_service_has_a_schema_of_its_own(empty_postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        databases = [
            await stack.enter_async_context(Database(empty_postgres_url, service))
            for service in ("agent", "gateway")
        ]
        for database in databases:
            await database.migrate(make)
        await databases[0].write(bump)
        assert [await values(database) for database in databases] == [[1, 0], [0, 0]]


async def test_transactions_that_deadlock_are_run_again(counters: Database) -> None:
    attempts = 0

    def bump_both(connection: sa.Connection, order: tuple[int, int]) -> None:
        nonlocal attempts
        attempts += 1
        for number in order:
            connection.execute(BUMP, {"number": number})
            connection.execute(sa.text("SELECT pg_sleep(0.2)"))

    await asyncio.gather(
        counters.write(lambda c: bump_both(c, (1, 2))),
        counters.write(lambda c: bump_both(c, (2, 1))),
    )
    assert await values(counters) == [2, 2]
    assert attempts > 2, "they did not meet"


async def test_a_connection_lost_before_the_commit_is_replaced(counters: Database) -> None:
    attempts = 0

    def lose_the_first(connection: sa.Connection) -> None:
        nonlocal attempts
        attempts += 1
        bump(connection)
        if attempts == 1:
            connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))

    await counters.write(lose_the_first)
    assert attempts == 2
    assert await values(counters) == [1, 0]


async def test_a_connection_lost_at_the_commit_is_an_error_and_nothing_is_repeated(
    counters: Database, postgres: PostgresServer
) -> None:
    attempts = 0

    def lose_it_afterwards(connection: sa.Connection) -> None:
        nonlocal attempts
        attempts += 1
        bump(connection)
        pid = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        postgres.run(f"SELECT pg_terminate_backend({pid}, 5000)")

    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await counters.write(lose_it_afterwards)
    assert attempts == 1
    assert await values(counters) == [0, 0]


async def test_who_is_cut_off_in_a_transaction_blocks_nobody_for_long(
    counters: Database, postgres: PostgresServer, empty_postgres_url: str
) -> None:
    attempts = 0
    async with link_to(TcpAddress("127.0.0.1", postgres.port)) as link:
        url = empty_postgres_url.replace(f":{postgres.port}/", f":{link.port}/")

        def bump_and_be_cut_off(connection: sa.Connection) -> None:
            nonlocal attempts
            attempts += 1
            bump(connection)
            if attempts == 1:
                link.break_with(Fault.HALF_OPEN)
            connection.execute(sa.text("SELECT 1"))

        async with Database(url, "test") as cut_off:
            writing = asyncio.create_task(cut_off.write(bump_and_be_cut_off))
            await until(lambda: attempts)
            async with asyncio.timeout(15):
                await counters.write(bump)
            assert await values(counters) == [1, 0]
            link.heal()
            await writing
    assert await values(counters) == [2, 0]


async def test_hints_reach_every_replica(empty_postgres_url: str) -> None:
    async with (
        Database(empty_postgres_url, "test") as one,
        Database(empty_postgres_url, "test") as other,
    ):
        hint = other.listen("jobs")
        assert await hint.wait(10), "listening has begun, and something may have changed before"
        await one.write(lambda _: None, notify="jobs")
        assert await hint.wait(10)


async def test_replicas_migrate_one_after_the_other(empty_postgres_url: str) -> None:
    inside = 0

    def migrate(connection: sa.Connection) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        connection.execute(sa.text("SELECT pg_sleep(0.1)"))
        metadata.create_all(connection)
        inside -= 1

    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(Database(empty_postgres_url, "test")) for _ in range(3)
        ]
        await asyncio.gather(*[replica.migrate(migrate) for replica in replicas])


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    with postgres_server() as server:
        yield server


async def test_a_standby_answers_reads_and_is_named_when_written_to(
    own_server: PostgresServer,
) -> None:
    url = f"postgresql://postgres@127.0.0.1:{own_server.port}/postgres"
    async with Database(url, "test") as database:
        await database.migrate(make)
    await asyncio.to_thread(own_server.stop, signal.SIGINT)
    await asyncio.to_thread((own_server.data / "standby.signal").touch)
    await asyncio.to_thread(own_server.start)
    async with Database(url, "test") as database:
        for _ in range(2):
            assert await values(database) == [0, 0]
            with pytest.raises(DatabaseReadOnly, match="primary"):
                await database.write(bump)


async def test_a_server_s_crash_is_an_error_and_its_return_is_noticed(
    own_server: PostgresServer,
) -> None:
    url = f"postgresql://postgres@127.0.0.1:{own_server.port}/postgres"
    async with Database(url, "test") as database:
        await database.migrate(make)
        hint = database.listen("jobs")
        assert await hint.wait(10)
        await asyncio.gather(*[database.write(bump) for _ in range(20)])
        await asyncio.to_thread(own_server.stop, signal.SIGKILL)
        with pytest.raises(DatabaseUnavailable, match="does not answer"):
            await database.write(bump)
        await asyncio.to_thread(own_server.start)
        await database.write(bump)
        assert await values(database) == [21, 0]
        assert await hint.wait(10), "hints may have been lost meanwhile"
