"""One command: what its box reports and what callers request.

Output is stored in a ring, which a command may fill faster than clients read it over the network.
While even the fastest reader is far behind, the box therefore gets its acknowledgements late. A
reader of tens of megabytes per second misses nothing; a slower one delays the command no further.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from msgspec.structs import replace

from executor_service.errors import ExecutorError, LinkClosed
from executor_service.execs.spool import CommandSpool
from executor_service.link.exec_handle import ExecHandle
from executor_service.link.messages import TerminalSize
from executor_service.records.sandboxes import CommandRecord, EndReason, Exit
from services.errors import HermesError, Unavailable

FAR_BEHIND_BYTES = 1024 * 1024
HOLD_S = 0.02
"""The longest delay for each MiB, which still allows 50 MB/s."""

Send = Callable[[int, int], None]
"""Tells the box how far a stream is stored."""
Behind = Callable[[], int]
"""Returns how many bytes a reader is behind."""


class OutputPacer:
    """Acknowledges stored output to the box, late while the fastest reader is far behind."""

    def __init__(
        self, send: Send, far_bytes: int = FAR_BEHIND_BYTES, hold_s: float = HOLD_S
    ) -> None:
        self._send = send
        self._far_bytes = far_bytes
        self._hold_s = hold_s
        self._readers: set[Behind] = set()
        self._held: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def reading(self, reader: Behind) -> Generator[None]:
        """Registers a reader for the time of the block."""
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)
            self.on_progress()

    def on_progress(self) -> None:
        if self._timer is not None and not self._is_late:
            self._release()

    def acknowledge(self, stream: int, offset: int) -> None:
        """Acknowledges a stream up to an offset, now or a little later."""
        self._held[stream] = offset
        if self._timer is None:
            if self._is_late:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._hold_s, self._release)
            else:
                self._release()

    def forget(self) -> None:
        """Drops the pending acknowledgements of a link that has ended."""
        self._held.clear()
        self._release()

    @property
    def _is_late(self) -> bool:
        return min((behind() for behind in self._readers), default=0) > self._far_bytes

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, {}
        for stream, offset in held.items():
            self._send(stream, offset)


INPUT_LOST = "the connection to the sandbox broke; attach again and continue the input"


class CommandEvents(Protocol):
    """What a command reports about itself."""

    def on_ended(self, command: "Command") -> None: ...

    def on_recorded(self, command: "Command") -> None: ...


class Command:
    """A command from start to end, over any number of links: a `CommandSink`."""

    def __init__(self, record: CommandRecord, spool: CommandSpool, events: CommandEvents) -> None:
        self.record = record
        self.spool = spool
        self.input_offset = 0
        """Where input continues: everything before it has been sent to the box."""
        self.input_taken = 0
        """How far the command has read its input."""
        self.input_losses = 0
        """How often input was lost with a link."""
        self.ended = asyncio.Event()
        self.bound = False
        """Whether its box has confirmed the start."""
        self._events = events
        self._is_recorded = record.exit is not None
        self._settled = asyncio.Event()
        self._refusal: ExecutorError | HermesError | None = None
        self._remote: ExecHandle | None = None
        self._writing = asyncio.Lock()
        self._cancelled_for: EndReason | None = None
        self._signals: set[int] = set()
        self._watchers: set[asyncio.Event] = set()
        self.pacer = OutputPacer(self._acknowledge)
        if record.exit is not None:
            self.ended.set()
            self._settled.set()
        spool.on_written = self.pacer.acknowledge

    @property
    def exec_id(self) -> str:
        return self.record.exec_id

    @contextmanager
    def watch(self) -> Generator[asyncio.Event]:
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            yield changed
        finally:
            self._watchers.discard(changed)

    def bind(self, remote: ExecHandle) -> "Command":
        self.bound = True
        self.pacer.forget()
        self._remote = remote
        self.input_losses += remote.state.stdin_received < self.input_offset
        self.input_offset = remote.state.stdin_received
        self.input_taken = remote.state.stdin_taken
        self._settled.set()
        self._notify()
        if self._cancelled_for is not None:
            remote.cancel(self._cancelled_for)
        return self

    def refuse(self, why: ExecutorError | HermesError) -> None:
        """Marks it as never started."""
        self._refusal = why
        self._settled.set()

    async def wait_started(self) -> None:
        """Waits until the box runs it; fails with the error that `refuse` got."""
        await self._settled.wait()
        if self._refusal is not None:
            raise self._refusal

    def end(self, ended_at: float, exit_: Exit) -> None:
        if self.record.exit is not None:
            return
        self.record = replace(self.record, ended_at=ended_at, exit=exit_)
        self._settled.set()
        self.ended.set()
        self._notify()
        self._events.on_ended(self)

    def give_up(self, reason: EndReason, now: float) -> None:
        duration_ms = max(0, round((now - self.record.started_at) * 1000))
        exit_ = Exit(reason, self.spool.ends, 0, duration_ms, truncated=self.spool.truncated)
        self.end(now, exit_)

    def mark_recorded(self) -> None:
        """Lets its box forget it, because its end is in the journal."""
        self._is_recorded = True
        self._forget_in_box()
        self._events.on_recorded(self)

    def cancel(self, reason: EndReason = EndReason.CANCELLED) -> None:
        """Ends the whole process tree: SIGTERM, then SIGKILL; repeated over a new link."""
        self._cancelled_for = self._cancelled_for or reason
        if self._remote is not None:
            self._remote.cancel(self._cancelled_for)

    def signal(self, number: int) -> None:
        if self.record.exit is not None:
            return
        if self._remote is None:
            raise Unavailable("the connection to the sandbox broke; send the signal again")
        self._signals.add(number)
        self._remote.signal(number)

    def resize(self, size: TerminalSize) -> None:
        if self._remote is not None:
            self._remote.resize(size)

    async def write_input(self, offset: int | None, data: bytes, *, ends: bool = False) -> None:
        """Sends input as fast as it reads; an offset of None appends."""
        async with self._writing:
            start = self.input_offset if offset is None else offset
            if start > self.input_offset:
                raise Unavailable(
                    f"input has arrived up to byte {self.input_offset}; continue from there"
                )
            if self.record.exit is not None:
                return
            remote = self._remote
            try:
                if remote is None:
                    raise LinkClosed("there is no link")
                await remote.write_stdin(start, data, ends)
            except ExecutorError as error:
                raise Unavailable(INPUT_LOST) from error
            if remote is self._remote:
                self.input_offset = max(self.input_offset, start + len(data))

    def output(self, fd: int, offset: int, data: memoryview) -> None:
        self.spool.append(fd, offset, data)
        self._notify()

    def stdin_taken(self, offset: int) -> None:
        self.input_taken = offset
        self._notify()

    def exited(self, exit_: Exit) -> None:
        if self.record.exit is not None:
            self._forget_in_box()
            return
        reason = exit_.reason
        if reason is EndReason.SIGNALED and exit_.signal in self._signals:
            reason = EndReason.CANCELLED
        ended_at = self.record.started_at + exit_.duration_ms / 1000
        self.end(ended_at, replace(exit_, reason=reason, truncated=self.spool.truncated))

    def lost(self, error: ExecutorError) -> None:
        self.pacer.forget()
        self._remote = None

    def _forget_in_box(self) -> None:
        remote = self._remote
        if self._is_recorded and remote is not None and remote.exit is not None:
            remote.forget()
            self._remote = None

    def _acknowledge(self, fd: int, offset: int) -> None:
        if self._remote is not None:
            self._remote.ack(fd, offset)

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher.set()
