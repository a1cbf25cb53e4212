"""The differences between SQLite and PostgreSQL, so that statements need not know them.

Make frequent statements constants with `bindparam`: building costs 70 µs, running about 15.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import to_builtins
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.base import SyntaxExtension
from sqlalchemy.sql.compiler import DDLCompiler, SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal

from services.validation import convert

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

SQLITE_NOW = "hermes_now"
"""The SQLite function behind `db_now`: microseconds, some seconds from now."""


def to_microseconds(moment: datetime) -> int:
    """Return an aware time as SQLite stores it: microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // _MICROSECOND


class UtcTime(sa.types.TypeDecorator[datetime]):
    """An aware time in UTC: `timestamptz` on PostgreSQL, integer microseconds on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        kind = sa.BigInteger() if dialect.name == "sqlite" else sa.DateTime(timezone=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        """Reject naive times, as their zone is unknown."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return to_microseconds(value) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return _EPOCH + timedelta(microseconds=value)
        return value.astimezone(UTC)


def required(
    kind: sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]], *names: str
) -> list[sa.Column[Any]]:
    """Return NOT NULL columns of one type."""
    return [sa.Column(name, kind, nullable=False) for name in names]


class Encoded(sa.types.TypeDecorator[Any]):
    """A msgspec Struct, or a union of tagged ones, stored as JSON."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return to_builtins(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else convert(value, self.kind)


class db_now(FunctionElement[datetime]):  # noqa: N801 - used like the functions of `sa.func`
    """The database's time `after_s` seconds from now: the only clock of leases."""

    type = UtcTime()
    inherit_cache = True

    def __init__(self, after_s: float | sa.ColumnElement[float] = 0.0) -> None:
        super().__init__(
            sa.literal(after_s, sa.Double()) if isinstance(after_s, float) else after_s
        )


@compiles(db_now, "sqlite")
def _sqlite_now(element: db_now, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{SQLITE_NOW}({compiler.process(element.clauses, **kw)})"


@compiles(db_now, "postgresql")
def _postgresql_now(element: db_now, compiler: SQLCompiler, **kw: Any) -> str:
    # Unlike clock_timestamp() it is stable within a statement, so an index can be used.
    seconds = compiler.process(element.clauses, **kw)
    return f"(statement_timestamp() + make_interval(secs => {seconds}))"


class _OnConflict(SyntaxExtension, sa.ClauseElement):
    """`ON CONFLICT …`, the same in both dialects, but separate in SQLAlchemy."""

    inherit_cache = True
    _traverse_internals = [  # noqa: RUF012 - what a statement is known by in SQLAlchemy's cache
        ("key", InternalTraversal.dp_string_list),
        ("updated", InternalTraversal.dp_string_list),
        ("added", InternalTraversal.dp_string_list),
        ("table", InternalTraversal.dp_string),
    ]

    def __init__(
        self, key: Sequence[str], updated: Sequence[str], added: Sequence[str] = (), table: str = ""
    ) -> None:
        self.key = tuple(key)
        self.updated = tuple(updated)
        self.added = tuple(added)
        self.table = table

    def apply_to_insert(self, insert_stmt: sa.Insert) -> None:
        insert_stmt.apply_syntax_extension_point(self.append_replacing_same_type, "post_values")


@compiles(_OnConflict)
def _on_conflict(element: _OnConflict, compiler: SQLCompiler, **_: Any) -> str:
    if not (element.updated or element.added):
        return "ON CONFLICT DO NOTHING"
    quote = compiler.preparer.quote
    key, table = ", ".join(map(quote, element.key)), quote(element.table)
    changes = [f"{quote(name)} = excluded.{quote(name)}" for name in element.updated]
    changes += [f"{name} = {table}.{name} + excluded.{name}" for name in map(quote, element.added)]
    return f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(changes)}"


def insert_ignore(table: sa.Table) -> sa.Insert:
    """Return an INSERT that skips an existing row; `rowcount` says whether it was new."""
    return sa.insert(table).ext(_OnConflict((), ())).execution_options(preserve_rowcount=True)


def upsert(table: sa.Table, key: Sequence[str], update: Sequence[str]) -> sa.Insert:
    """Return an INSERT that updates these columns if the `key` exists."""
    return sa.insert(table).ext(_OnConflict(key, update))


def upsert_sum(table: sa.Table, key: Sequence[str], added: Sequence[str]) -> sa.Insert:
    """Return an INSERT that adds to these columns if the `key` exists."""
    return sa.insert(table).ext(_OnConflict(key, (), added, table.name))


def is_one_of(column: sa.Column[str], words: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return `column IN words` with inline constants, as partial indexes over them need."""
    for word in words:
        if not word.replace("_", "").isalnum():
            raise ValueError(f"{word!r} is not a plain word")
    return column.in_([sa.literal_column(f"'{word}'") for word in words])


def partial_index(name: str, *columns: str, where: sa.TextClause, unique: bool = False) -> sa.Index:
    """Return an index over the rows that fulfil a condition."""
    # PostgreSQL's own option would load its dialect wherever the schema is imported.
    return sa.Index(name, *columns, unique=unique, sqlite_where=where)


@compiles(CreateIndex, "postgresql")
def _create_index(element: CreateIndex, compiler: DDLCompiler, **kw: Any) -> str:
    statement = compiler.visit_create_index(element, **kw)
    options = element.element.dialect_kwargs
    where, own = options.get("sqlite_where"), options.get("postgresql_where")
    return statement if where is None or own is not None else f"{statement} WHERE {where}"
