"""What can be wrong with a database, as one sentence that says what to do.

services.errors.DatabaseUnavailable   it did not answer, or not in time; writes may be unsaved
├── DatabaseInUse                     another process has the file
├── DatabaseFull                      no space is left for it
├── DatabaseReadOnly                  it may be read but not written
└── DatabaseMismatch                  its schema is not one that this version can use
services.errors.FailedPrecondition    a person has to do something first
└── DatabaseDamaged                   the file's content is not what was written
"""

from services.errors import DatabaseUnavailable, FailedPrecondition


class DatabaseInUse(DatabaseUnavailable):
    """Another process serves from this database file."""


class DatabaseFull(DatabaseUnavailable):
    """No space is left where the database is stored."""


class DatabaseReadOnly(DatabaseUnavailable):
    """The database can be read but not written."""


class DatabaseDamaged(FailedPrecondition):
    """The database file is damaged or is not a database; retrying does not help."""


class DatabaseMismatch(DatabaseUnavailable):
    """The database's schema is newer than this version, or belongs to another program."""
