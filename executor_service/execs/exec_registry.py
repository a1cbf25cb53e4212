"""The commands of one sandbox, and how they get into the journal.

A command's end is reported first and recorded later. Until then its box keeps the end and would
report it to the next executor, so a box is ended only after its commands are recorded.
"""

import asyncio
from collections import deque
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from executor_service.errors import ExecutorError
from executor_service.execs.command import Command
from executor_service.execs.spool import CommandSpool, Spool, insist
from executor_service.journal import Journal
from executor_service.link.exec_handle import CommandSink, ExecHandle
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import CommandRecord, EndReason
from services.clock import Clock
from services.errors import AlreadyExists, DatabaseUnavailable, HermesError, NotFound

_GATHER_S = 0.01


class Recorder:
    """Writes changed commands to the journal, several in one transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: dict[Command, None] = {}
        self._wake = asyncio.Event()
        self._latest = asyncio.Event()
        """Set when the commands of the latest batch are in the journal."""
        self._latest.set()

    def note(self, command: Command) -> None:
        if not self._waiting:
            self._latest = asyncio.Event()
        self._waiting[command] = None
        self._wake.set()

    async def flush(self) -> None:
        """Waits until everything queued so far is in the journal."""
        await self._latest.wait()

    async def run(self) -> None:
        """Records commands, until cancelled; while the disk is full, the boxes keep them."""
        while True:
            await self._wake.wait()
            # Most commands are short: their start and end then make one record.
            await asyncio.sleep(_GATHER_S)
            self._wake.clear()
            commands, self._waiting, noted = list(self._waiting), {}, self._latest
            records = [await _final(command) for command in commands]
            why = f"{len(records)} commands cannot be recorded"
            await insist(partial(self._journal.put_commands, records), DatabaseUnavailable, why)
            for command, record in zip(commands, records, strict=True):
                if record.exit is not None:
                    command.mark_recorded()
            noted.set()


async def _final(command: Command) -> CommandRecord:
    """Returns the record to write; a command's output is stored before its end."""
    if command.record.exit is None:
        return command.record
    await command.spool.flush()
    if stored_bytes := command.spool.stored_bytes:
        ended = replace(command.record.exit, truncated=command.spool.truncated)
        command.record = replace(command.record, exit=ended, stored_bytes=stored_bytes)
    return command.record


_RECENT = 32
"""How many ended commands stay in memory for quick answers."""


class Stores(Struct, frozen=True):
    """What the commands of all sandboxes share."""

    journal: Journal
    spool: Spool
    recorder: Recorder
    clock: Clock
    metrics: ExecutorMetrics


class ExecRegistry:
    """A sandbox's commands, also after its box is gone."""

    def __init__(self, sandbox_id: str, backend: str, stores: Stores) -> None:
        self.sandbox_id = sandbox_id
        self._backend = backend
        self._stores = stores
        self._commands: dict[str, Command] = {}
        self._recent: deque[str] = deque()
        self.ended_records: dict[str, CommandRecord] = {}
        """By id, the commands whose end is in the journal."""
        self._unnoted: dict[str, CommandSpool] = {}
        """Output of commands that the journal lacks because they began just before a crash."""

    @property
    def running(self) -> list[Command]:
        return [found for found in self._commands.values() if found.record.exit is None]

    async def get(self, exec_id: str) -> Command:
        """Returns a command; fails with NotFound."""
        found = await self._find(exec_id)
        if found is None:
            raise NotFound(f"there is no command {exec_id}")
        return found

    def list(self) -> list[CommandRecord]:
        begun = {exec_id: command.record for exec_id, command in self._commands.items()}
        known = {**self.ended_records, **begun}
        return sorted(known.values(), key=lambda record: record.started_at)

    async def begin(self, exec_id: str, digest: str) -> tuple[Command, bool]:
        """Returns the command of an id, and whether it is new and must be started.

        Fails with AlreadyExists if the id was used for another request.
        """
        found = await self._find(exec_id)
        if found is None:
            return self._new(exec_id, digest), True
        if found.record.digest != digest:
            raise AlreadyExists(f"{exec_id} was already used for another command")
        return found, False

    def record_start(self, command: Command) -> None:
        """Records a new command; until then only its box knows it."""
        self._stores.recorder.note(command)

    def refuse(self, command: Command, why: ExecutorError | HermesError) -> None:
        """Drops a command that could not be started; its id is free again."""
        self._commands.pop(command.exec_id, None)
        command.refuse(why)

    async def prepare(self) -> Mapping[str, tuple[int, int]]:
        """Returns how much of each command's output is stored, for a new link."""
        for command in self._commands.values():
            await command.spool.flush()
        spools = self._unnoted | {name: command.spool for name, command in self._commands.items()}
        return {exec_id: spool.ends for exec_id, spool in spools.items()}

    def adopt(self, remote: ExecHandle) -> CommandSink | None:
        """Connects a command of the box to its record, over a new link."""
        command = self._commands.get(remote.exec_id)
        if command is None:
            if remote.exec_id in self.ended_records:
                return None
            # The executor died before it recorded the start.
            command = self._new(remote.exec_id, remote.state.digest)
            self.record_start(command)
        return command.bind(remote)

    def on_linked(self, in_box: Container[str]) -> None:
        """Ends commands that the box no longer has, given all that it has."""
        for command in self.running:
            if command.bound and command.exec_id not in in_box:
                command.give_up(EndReason.UNKNOWN, self._now())

    async def restore(self, records: Iterable[CommandRecord]) -> None:
        for record in records:
            if record.exit is not None:
                self.ended_records[record.exec_id] = record
                self._stores.spool.account(record.stored_bytes)
            else:
                self._keep(record, await self._stored(record.exec_id)).bound = True
        noted = self._commands.keys() | self.ended_records.keys()
        for exec_id in await self._stores.spool.list_commands(self.sandbox_id):
            if exec_id not in noted:
                self._unnoted[exec_id] = await self._stored(exec_id)

    async def _stored(self, exec_id: str) -> CommandSpool:
        spool = await self._stores.spool.load(self.sandbox_id, exec_id)
        self._stores.spool.account(spool.stored_bytes)
        return spool

    def give_up(self, reason: EndReason) -> None:
        """Ends all commands, because the box is gone."""
        for exec_id in list(self._unnoted):
            self._new(exec_id, digest="")
        for command in self.running:
            command.give_up(reason, self._now())

    async def flush(self) -> None:
        """Waits until all reported commands are in the journal."""
        await self._stores.recorder.flush()

    async def forget(self, record: CommandRecord) -> None:
        await self._remove_output(record)
        await self._stores.journal.forget_command(self.sandbox_id, record.exec_id)
        del self.ended_records[record.exec_id]
        self._commands.pop(record.exec_id, None)
        with suppress(ValueError):  # the id may be in use again
            self._recent.remove(record.exec_id)

    async def forget_output(self, record: CommandRecord) -> None:
        await self._stores.journal.put_commands([await self._remove_output(record)])

    async def _remove_output(self, record: CommandRecord) -> CommandRecord:
        await self._stores.spool.remove_command(self.sandbox_id, record.exec_id)
        self._stores.spool.account(-record.stored_bytes)
        ended = replace(record.exit, truncated=True) if record.exit else None
        left = replace(record, exit=ended, stored_bytes=0)
        self.ended_records[record.exec_id] = left
        return left

    def on_ended(self, command: Command) -> None:
        if command.record.exit is not None:
            self._stores.metrics.count_exit(self._backend, command.record.exit)
        self._stores.recorder.note(command)

    def on_recorded(self, command: Command) -> None:
        """Keeps only the latest recorded commands in memory."""
        self.ended_records[command.exec_id] = command.record
        self._recent.append(command.exec_id)
        if len(self._recent) > _RECENT:
            self._commands.pop(self._recent.popleft(), None)

    async def _find(self, exec_id: str) -> Command | None:
        found, record = self._commands.get(exec_id), self.ended_records.get(exec_id)
        if found is not None or record is None or record.exit is None:
            return found
        spool = await self._stores.spool.load(self.sandbox_id, exec_id, record.exit.totals)
        return Command(record, spool, self)

    def _new(self, exec_id: str, digest: str) -> Command:
        record = CommandRecord(self.sandbox_id, exec_id, digest, self._now())
        spool = self._unnoted.pop(exec_id, None)
        return self._keep(record, spool or self._stores.spool.new(self.sandbox_id, exec_id))

    def _keep(self, record: CommandRecord, spool: CommandSpool) -> Command:
        command = self._commands[record.exec_id] = Command(record, spool, self)
        return command

    def _now(self) -> float:
        return self._stores.clock.now().timestamp()
