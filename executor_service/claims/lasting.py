"""Time by which sandboxes grow old, whatever becomes of the wall clock and of the executor."""

import asyncio
import logging
import sqlite3
from datetime import datetime

from executor_service.journal import Journal
from executor_service.supervisor import processes
from services.clock import Clock
from services.errors import DatabaseUnavailable

_NOTE_EVERY_S = 60.0

_log = logging.getLogger(__name__)


async def boot_id() -> str:
    """Names this run of the machine, for which its monotonic clock goes on; empty if unknown."""

    try:
        return await asyncio.to_thread(processes.boot_id)
    except OSError:
        return ""


class LastingClock:
    """A `Clock` whose monotonic time goes on from one executor of a home to the next.

    While none runs the machine goes on counting, unless it starts anew or the next one is on
    another. Then only the wall clock can tell how long that was, and is believed up to how long a
    box lives without an executor: no sandbox can be older than that without having ended.
    """

    def __init__(self, clock: Clock, journal: Journal, boot: str, most_away_s: float) -> None:
        self._clock = clock
        self._journal = journal
        self._boot = boot
        self._most_away_s = most_away_s + _NOTE_EVERY_S
        self._before_s = 0.0

    def now(self) -> datetime:
        """The wall time."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds in which there was an executor, or could have been."""
        return self._before_s + self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await self._clock.sleep(seconds)

    async def begin(self) -> None:
        """Go on from where the executor before this one was."""
        self._before_s = -self._clock.monotonic()
        row = await self._journal.read(lambda db: db.execute("SELECT * FROM passed").fetchone())
        if row is not None:
            passed_s, noted_at, boot, noted_s = row
            if boot and boot == self._boot:
                away_s = max(0.0, self._clock.monotonic() - noted_s)
            else:
                away_s = self._clock.now().timestamp() - noted_at
                away_s = min(max(0.0, away_s), self._most_away_s)
            self._before_s += passed_s + away_s
        await self.note()

    async def run(self) -> None:
        """Note the time now and then, until cancelled."""
        while True:
            await self._clock.sleep(_NOTE_EVERY_S)
            try:
                await self.note()
            except DatabaseUnavailable as error:
                _log.warning("the time is not noted: %s", error)

    async def note(self) -> None:
        """Write down how late it is."""
        wall, here_s = self._clock.now().timestamp(), self._clock.monotonic()
        row = (self._before_s + here_s, wall, self._boot, here_s)

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM passed")
            db.execute("INSERT INTO passed VALUES (?, ?, ?, ?)", row)

        await self._journal.write(write)
