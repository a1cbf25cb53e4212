"""Database access for all services, with the same statements on SQLite and PostgreSQL."""

from services.database.database import Database
from services.database.errors import (
    DatabaseDamaged,
    DatabaseFull,
    DatabaseInUse,
    DatabaseMismatch,
    DatabaseReadOnly,
)
from services.database.hints import Hint
from services.database.prepared_statement import Prepared
from services.database.sql import (
    Encoded,
    UtcTime,
    db_now,
    insert_ignore,
    is_one_of,
    partial_index,
    upsert,
    upsert_sum,
)
from services.errors import DatabaseUnavailable

__all__ = [
    "Database",
    "DatabaseDamaged",
    "DatabaseFull",
    "DatabaseInUse",
    "DatabaseMismatch",
    "DatabaseReadOnly",
    "DatabaseUnavailable",
    "Encoded",
    "Hint",
    "Prepared",
    "UtcTime",
    "db_now",
    "insert_ignore",
    "is_one_of",
    "partial_index",
    "upsert",
    "upsert_sum",
]
