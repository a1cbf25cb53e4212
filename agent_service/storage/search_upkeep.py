"""Sorts what was said last into PostgreSQL's index of words.

A message has hundreds of words, and each would have a place of its own written in the transaction
that stores it. So PostgreSQL only notes it down, in a list that each search reads as well; sorting
in what came within a second costs a sixth of doing so for one message after the other, and nobody
waits for it.
"""

import logging

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ProgrammingError

from services.clock import Clock
from services.database import Database
from services.errors import DatabaseUnavailable

EVERY_S = 1.0
"""Searches read what is not sorted in: of a second it is little."""

_SORT_IN = sa.text("SELECT gin_clean_pending_list('message_text_words')")

_log = logging.getLogger(__name__)


class SearchUpkeep:
    """Keeps the list short."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run(self) -> None:
        """Do it until cancelled; SQLite sorts in at each message.

        Where the role of the URL does not own the tables, autovacuum does it, and now and then a
        message that finds the list full.
        """
        if self._database.dialect == "sqlite":
            return
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self._database.write(sort_in)
            except ProgrammingError as error:
                _log.warning("PostgreSQL keeps its index of words alone: %s", error.orig)
                return
            except (DatabaseUnavailable, DBAPIError) as error:
                # Nothing hangs on it: a server that is away, or only a standby, will be back.
                _log.debug("the index of words is kept later: %s", error)


def sort_in(conn: Connection) -> int:
    """Sort in what was only noted down; how many pages of it there were."""
    return conn.execute(_SORT_IN).scalar_one()
