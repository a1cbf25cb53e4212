"""Fast execution of frequent statements.

A turn runs about 25 statements once each, so SQLAlchemy's code between statement and driver is
never in the CPU caches and takes three times as long as SQLite itself. On SQLite, a `Prepared` runs
its compiled SQL directly; on PostgreSQL it runs like any statement.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

Values = Mapping[str, Any]
"""Parameters, as for `sa.Connection.execute`."""

_Process = Callable[[Any], Any]


class Prepared(Struct, frozen=True, eq=False):
    """A statement built once and run often; it raises what SQLAlchemy would."""

    statement: sa.Executable

    def run(self, connection: sa.Connection, values: Values) -> int:
        """Run it; return how many rows it changed."""
        if (direct := self._direct_to(connection, values)) is None:
            counting = {"preserve_rowcount": True}
            return connection.execute(self.statement, values, execution_options=counting).rowcount
        return direct.run(connection, values)

    def run_all(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        """Run it for each of the rows, which all have the same names; may be empty."""
        if not rows:
            return
        if (direct := self._direct_to(connection, rows[0])) is None:
            connection.execute(self.statement, rows)
        else:
            direct.run_all(connection, rows)

    def rows(self, connection: sa.Connection, values: Values) -> sa.Result[Any]:
        """Run it; return the rows that it found or changed."""
        if (direct := self._direct_to(connection, values)) is None:
            return connection.execute(self.statement, values)
        return direct.rows(connection, values)

    def _direct_to(self, connection: sa.Connection, values: Values) -> "_Direct | None":
        """Return the driver's form of the statement for these names, if there is one."""
        if connection.dialect.name != "sqlite":
            return None
        # Cached with the connection, since a statement is a constant.
        known, key = connection.info, (self, *values)
        if key not in known:
            statement: Any = self.statement
            compiled = statement.compile(dialect=connection.dialect, column_keys=sorted(values))
            # A statement with a list is expanded at each execution.
            known[key] = None if compiled.post_compile_params else _Direct(compiled, values)
        return known[key]


class _Direct:
    """The driver's form of a statement, with conversions of values and columns."""

    def __init__(self, compiled: SQLCompiler, names: Iterable[str]) -> None:
        dialect, names = compiled.dialect, frozenset(names)
        defaults = compiled.construct_params(dict.fromkeys(names))
        self._sql = str(compiled)
        self._constants: list[Any] = []
        self._given: list[tuple[int, str, _Process | None]] = []
        for name in compiled.positiontup or ():
            bind = compiled.binds[name]
            process = bind.type.dialect_impl(dialect).bind_processor(dialect)
            if bind.key in names:
                self._given.append((len(self._constants), bind.key, process))
                self._constants.append(None)
            else:
                value = defaults[name]
                self._constants.append(value if process is None else process(value))
        statement: Any = compiled.statement
        columns = statement.exported_columns
        self._columns = SimpleResultMetaData(columns.keys())
        self._results = [
            column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns
        ]

    def run(self, connection: sa.Connection, values: Values) -> int:
        with self._errors_explained():
            return _driver(connection).execute(self._sql, self._bound(values)).rowcount

    def run_all(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        bound = [self._bound(values) for values in rows]
        with self._errors_explained():
            _driver(connection).executemany(self._sql, bound)

    def rows(self, connection: sa.Connection, values: Values) -> sa.Result[Any]:
        with self._errors_explained():
            found = _driver(connection).execute(self._sql, self._bound(values)).fetchall()
        return IteratorResult(self._columns, iter([self._converted(row) for row in found]))

    def _bound(self, values: Values) -> list[Any]:
        bound = self._constants.copy()
        for index, name, process in self._given:
            value = values[name]
            bound[index] = value if process is None else process(value)
        return bound

    def _converted(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            value if process is None else process(value)
            for value, process in zip(row, self._results, strict=True)
        )

    @contextmanager
    def _errors_explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                self._sql, None, error, sqlite3.Error, hide_parameters=True
            ) from error


def _driver(connection: sa.Connection) -> Any:
    return connection.connection.dbapi_connection
