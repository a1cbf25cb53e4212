"""Prepared statements do what SQLAlchemy does with the same ones, on SQLite and on PostgreSQL."""

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from services.database import Database, Prepared, UtcTime, insert_ignore

metadata = sa.MetaData()
entry = sa.Table(
    "entry",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("key", sa.String(50), nullable=False, unique=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("is_new", sa.Boolean, nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("at", UtcTime),
)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
INSERT = Prepared(sa.insert(entry))
IGNORE = Prepared(insert_ignore(entry))
RAISE = Prepared(
    sa.update(entry)
    .where(entry.c.version < sa.bindparam("limit"))
    .values(version=entry.c.version + 10, is_new=False)
)
TAKE = Prepared(
    sa.update(entry)
    .where(entry.c.key == sa.bindparam("wanted"))
    .values(version=entry.c.version + 1)
    .returning(entry.c.key, entry.c.version, entry.c.at.label("since"))
)
DELETE = Prepared(sa.delete(entry).where(entry.c.key == sa.bindparam("wanted")))
ALL = Prepared(sa.select(entry).order_by(entry.c.key))
KEYS = Prepared(sa.select(entry.c.key).where(entry.c.version > sa.bindparam("over")))


def row(key: str, version: int = 1, at: datetime | None = NOW) -> dict[str, object]:
    return {"key": key, "version": version, "is_new": True, "payload": {"ä": [1, None]}, "at": at}


@pytest.fixture
async def entries(database: Database) -> Database:
    await database.migrate(metadata.create_all)
    return database


async def test_rows_come_back_as_they_were_given(entries: Database) -> None:
    def store(connection: sa.Connection) -> int:
        INSERT.run_all(connection, [row("b", at=None), row("c", 3)])
        INSERT.run_all(connection, [])
        return INSERT.run(connection, row("a"))

    assert await entries.write(store) == 1
    prepared = await entries.read(lambda connection: ALL.rows(connection, {}).all())
    ordinary = sa.select(entry).order_by(entry.c.key)
    assert prepared == await entries.read(lambda connection: connection.execute(ordinary).all())
    assert [(found.key, found.version, found.at) for found in prepared] == [
        ("a", 1, NOW),
        ("b", 1, None),
        ("c", 3, NOW),
    ]
    assert prepared[0].is_new is True
    assert prepared[0].payload == {"ä": [1, None]}


async def test_whoever_changes_rows_is_told_how_many(entries: Database) -> None:
    def change(connection: sa.Connection) -> list[int]:
        return [
            IGNORE.run(connection, row("a")),
            IGNORE.run(connection, row("a")),
            IGNORE.run(connection, row("b", 2)),
            RAISE.run(connection, {"limit": 3}),
            RAISE.run(connection, {"limit": 3}),
            DELETE.run(connection, {"wanted": "a"}),
        ]

    assert await entries.write(change) == [1, 0, 1, 2, 0, 1]
    assert await entries.read(lambda c: KEYS.rows(c, {"over": 11}).scalars().all()) == ["b"]


async def test_a_change_returns_what_it_has_changed(entries: Database) -> None:
    def take(connection: sa.Connection, wanted: str) -> sa.Row[*tuple[object, ...]] | None:
        return TAKE.rows(connection, {"wanted": wanted}).one_or_none()

    await entries.write(lambda connection: INSERT.run(connection, row("a")))
    taken = await entries.write(lambda connection: take(connection, "a"))
    assert taken is not None
    assert taken == ("a", 2, NOW)
    assert taken.since == NOW
    assert await entries.write(lambda connection: take(connection, "b")) is None


async def test_other_names_are_another_statement(entries: Database) -> None:
    by_key = Prepared(sa.update(entry).where(entry.c.key == sa.bindparam("wanted")))

    def change(connection: sa.Connection) -> sa.Row[*tuple[object, ...]]:
        INSERT.run(connection, row("a"))
        by_key.run(connection, {"wanted": "a", "version": 7})
        by_key.run(connection, {"is_new": False, "wanted": "a"})
        return ALL.rows(connection, {}).one()

    changed = await entries.write(change)
    assert (changed.version, changed.is_new) == (7, False)


async def test_errors_are_those_of_every_other_statement(entries: Database) -> None:
    def twice(connection: sa.Connection) -> None:
        INSERT.run(connection, row("a secret"))
        INSERT.run_all(connection, [row("b"), row("a secret")])

    with pytest.raises(IntegrityError) as caught:
        await entries.write(twice)
    assert "secret" not in str(caught.value).partition("DETAIL")[0]
    assert await entries.read(lambda connection: ALL.rows(connection, {}).all()) == []
    with pytest.raises(SQLAlchemyError, match="over"):
        await entries.read(lambda connection: KEYS.rows(connection, {}).all())
