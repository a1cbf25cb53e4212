"""What became of jobs, noted by the database itself as it happens."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct

from scheduler_service.jobs import OPEN_STATES, RunState
from services.database import Database

_NOTES = """
CREATE SCHEMA bench;
-- A row of its own for each that is inserted, never changed again: the commit of the transaction
-- that made it is the commit of the run, or of the turn.
CREATE TABLE bench.note (kind text NOT NULL, id text NOT NULL, place text NOT NULL);
CREATE FUNCTION bench.run_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO bench.note VALUES ('run', NEW.id, NEW.job_id); RETURN NULL; END $$;
CREATE FUNCTION bench.turn_made() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO bench.note VALUES ('turn', NEW.id, NEW.session_id); RETURN NULL; END $$;
CREATE TRIGGER bench AFTER INSERT ON scheduler.run FOR EACH ROW
  EXECUTE FUNCTION bench.run_made();
CREATE TRIGGER bench AFTER INSERT ON agent.turn FOR EACH ROW
  EXECUTE FUNCTION bench.turn_made();
"""
_MADE = sa.text(
    "SELECT id, place, pg_xact_commit_timestamp(xmin) AS at FROM bench.note WHERE kind = :kind"
)
_ENDED = sa.text("SELECT job_id, state FROM scheduler.run WHERE finished_at IS NOT NULL")
_HELD = sa.text(
    "SELECT owner, count(*) AS runs FROM scheduler.run WHERE owner LIKE :like "
    "AND state IN ({}) GROUP BY owner".format(", ".join(f"'{state}'" for state in OPEN_STATES))
)
_DONE = sa.text("SELECT count(*) FROM scheduler.run WHERE finished_at IS NOT NULL")


class Made(Struct, frozen=True):
    """A run or turn that came to be."""

    id: str
    job_id: str
    at: datetime
    """When the transaction that made it was committed, by the database's clock."""


class Ledger:
    """Notes runs and turns as they are inserted; the tables have to be there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self) -> None:
        """Begin to take note."""

        await self._database.migrate(lambda connection: connection.exec_driver_sql(_NOTES))

    async def runs(self) -> list[Made]:
        """The runs that came to be."""
        rows = await self._rows(_MADE, kind="run")
        return [Made(row.id, row.place, row.at) for row in rows]

    async def turns(self) -> list[Made]:
        """The turns that came to be at the agent."""
        rows = await self._rows(_MADE, kind="turn")
        # A session of a job is named cron_<job>_<date>_<time>.
        return [Made(row.id, row.place.split("_")[1], row.at) for row in rows]

    async def succeeded(self) -> Counter[str]:
        """How many runs of each job have ended well."""
        rows = await self._rows(_ENDED)
        return Counter(row.job_id for row in rows if row.state == RunState.SUCCEEDED)

    async def ended_count(self) -> int:
        """How many runs have ended."""
        return await self._database.read(lambda connection: connection.execute(_DONE).scalar_one())

    async def held_by(self, instance: str) -> Mapping[str, int]:
        """How many open runs each life of an instance still owns."""
        return {row.owner: row.runs for row in await self._rows(_HELD, like=f"{instance}/%")}

    async def _rows(self, query: sa.TextClause, **values: str) -> list[sa.Row[tuple[object, ...]]]:
        return list(
            await self._database.read(lambda connection: connection.execute(query, values).all())
        )
