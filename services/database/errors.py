"""What can be wrong with a database, as one sentence that says what to do.

services.errors.DatabaseUnavailable   it did not answer, or not in time; writes may be unsaved
├── DatabaseInUse                     another process has the file
├── DatabaseFull                      no space is left for it
├── DatabaseReadOnly                  it may be read but not written
├── DatabaseDamaged                   the file's content is not what was written
└── DatabaseMismatch                  its schema is not one that this version can use
"""

from services.errors import DatabaseUnavailable


class DatabaseInUse(DatabaseUnavailable):
    """Another process serves from this database file."""


class DatabaseFull(DatabaseUnavailable):
    """No space is left where the database is stored."""


class DatabaseReadOnly(DatabaseUnavailable):
    """The database can be read but not written."""


class DatabaseDamaged(DatabaseUnavailable):
    """The database's file is damaged, or is not a database, until a person has put it right."""


class DatabaseMismatch(DatabaseUnavailable):
    """The database's schema is newer than this version, or belongs to another program."""
