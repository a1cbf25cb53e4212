"""Notes commands in the journal, those that come together in one transaction.

That a command has ended is told before it is noted, because its box keeps it until then: it tells
it again to the next executor, before anybody can ask that one. So no box is ended before.
"""

import asyncio
from functools import partial

from msgspec.structs import replace

from executor_service.execs.command import Command
from executor_service.execs.spool import insist
from executor_service.journal import Journal
from executor_service.records.sandboxes import CommandRecord
from services.errors import DatabaseUnavailable

_GATHER_S = 0.01


class Recorder:
    """Takes commands that have changed; their boxes forget those whose end is noted."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: dict[Command, None] = {}
        self._wake = asyncio.Event()
        self._latest = asyncio.Event()
        """Set when the commands that wait, or that waited last, are in the journal."""
        self._latest.set()

    def note(self, command: Command) -> None:
        """Has a command noted soon."""
        if not self._waiting:
            self._latest = asyncio.Event()
        self._waiting[command] = None
        self._wake.set()

    async def flush(self) -> None:
        """Returns when all that was to be noted until now is in the journal."""
        await self._latest.wait()

    async def run(self) -> None:
        """Notes what comes, until cancelled; while the disk takes nothing, boxes keep it."""
        while True:
            await self._wake.wait()
            # Most commands are short: their start and their end make one record.
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            commands, self._waiting, noted = list(self._waiting), {}, self._latest
            records = [await _final(command) for command in commands]
            why = f"the ends of {len(records)} commands wait"
            await insist(partial(self._journal.put_commands, records), DatabaseUnavailable, why)
            for command, record in zip(commands, records, strict=True):
                if record.exit is not None:
                    command.mark_recorded()
            noted.set()


async def _final(command: Command) -> CommandRecord:
    """What is to be noted; the end of a command comes after its output."""
    if command.record.exit is None:
        return command.record
    await command.spool.flush()
    if stored_bytes := command.spool.stored_bytes:
        ended = replace(command.record.exit, truncated=command.spool.truncated)
        command.record = replace(command.record, exit=ended, stored_bytes=stored_bytes)
    return command.record
