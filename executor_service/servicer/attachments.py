"""AttachExec: what a client sees of a command, and what it sends.

Any number of clients may watch, each from any offset and at its own pace. The command waits a
little for the fastest of them (`executor_service.execs.command`); a client that is still too slow
misses the output that the spool drops in the meantime.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import cast

from executor_service.execs.command import INPUT_LOST, Command
from executor_service.execs.segments import STREAMS
from executor_service.link.messages import TerminalSize
from executor_service.records.sandboxes import Exit
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.servicer.fields import duration, in_range
from hermes.executor.v1 import exec_pb2
from services.errors import HermesError, InvalidArgument, StaleEpoch, Unavailable
from services.lifecycle import Workers
from services.rpc.messages import message_of

PIECE_BYTES = 256 * 1024
"""Most output in one message; a message itself costs as much as copying this many bytes."""
_HEARTBEAT_S = 5.0

Event = exec_pb2.AttachExecResponse


class CommandView:
    """What one client sees of a command."""

    def __init__(self, command: Command, stdout_offset: int, stderr_offset: int) -> None:
        self._command = command
        self._sent: dict[int, int] = dict(zip(STREAMS, (stdout_offset, stderr_offset), strict=True))
        self._closed = False
        self._failure: HermesError | None = None
        self._changed = asyncio.Event()
        self._input_offset = -1
        self._next_heartbeat = 0.0
        self._losses = command.input_losses
        self.gives_input = False
        """Whether this client also sends the input."""

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    def fail(self, error: HermesError) -> None:
        self._failure = error
        self.close()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yields what happens, the exit last; iterate under `contextlib.aclosing`."""
        self._next_heartbeat = asyncio.get_running_loop().time() + _HEARTBEAT_S
        pacer = self._command.pacer
        with self._command.watch() as self._changed, pacer.reading(self._behind_bytes):
            while not self._closed:
                self._changed.clear()
                happened = await self._look()
                for event in happened:
                    if not self._closed:
                        yield event
                if happened and happened[-1].HasField("exited"):
                    return
                if not happened:
                    await self._wait()
        if self._failure is not None:
            raise self._failure

    async def _look(self) -> list[Event]:
        """What has happened since the last look."""
        if self.gives_input and self._command.input_losses > self._losses:
            raise Unavailable(INPUT_LOST)
        happened = self._input_events()
        # Read before the output: an exit counts only when all output before it is read.
        ended = self._command.record.exit
        for stream in STREAMS:
            happened += await self._read(stream)
        if ended is not None and self._is_drained:
            happened.append(Event(exited=exit_to_wire(ended)))
        elif asyncio.get_running_loop().time() >= self._next_heartbeat:
            self._next_heartbeat += _HEARTBEAT_S
            happened.append(Event(heartbeat=Event.Heartbeat()))
        return happened

    def _behind_bytes(self) -> int:
        """How much stored output this client has not been sent."""
        return sum(self._command.spool.ends) - sum(self._sent.values())

    @property
    def _is_drained(self) -> bool:
        return all(self._sent[s] >= self._command.spool.end(s) for s in STREAMS)

    def _input_events(self) -> list[Event]:
        offset = self._command.input_taken
        if self._input_offset < 0:
            if self._command.record.exit is not None:
                return []
            offset = self._command.input_offset
        if offset <= self._input_offset:
            return []
        self._input_offset = offset
        return [Event(stdin_ack_offset=offset)]

    async def _read(self, stream: int) -> list[Event]:
        position = self._sent[stream]
        if position >= self._command.spool.end(stream):
            return []
        start, data = await self._command.spool.read(stream, position, PIECE_BYTES)
        self._sent[stream] = start + len(data)
        self._command.pacer.on_progress()
        if not data and start == position:
            return []
        # Filled in place, because assigning a finished message would copy the data twice more.
        event = Event()
        # Numbered on the wire as in the command.
        event.output.stream = cast("exec_pb2.OutputStream.ValueType", stream)
        event.output.offset = start
        event.output.data = data
        if start > position:
            event.output.dropped_before_offset = start
        return [event]

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_heartbeat):
                await self._changed.wait()


def exit_to_wire(ended: Exit) -> exec_pb2.Exit:
    """Convert how a command ended."""
    return message_of(
        ended,
        exec_pb2.Exit,
        stdout_bytes=ended.totals[0],
        stderr_bytes=ended.totals[1],
        survivor_count=ended.survivors,
        duration=duration(ended.duration_ms / 1000),
    )


_WAITING_PIECES = 32
_MOST_INPUT_BYTES = 32 * 1024
_HIGHEST_SIGNAL = 31
_MOST_CELLS = 1000


class Attachment:
    """One client of a command: what it sees and what it sends."""

    def __init__(
        self, sandbox: Sandbox, command: Command, epoch: int, offsets: tuple[int, int] = (0, 0)
    ) -> None:
        """Take the epoch of the client's lease; an operator has none, which is 0."""
        self.view = CommandView(command, *offsets)
        self._sandbox = sandbox
        self._command = command
        self._epoch = epoch
        self._pieces: asyncio.Queue[tuple[int | None, bytes]] = asyncio.Queue(_WAITING_PIECES)
        """Input by its offset; None is its end."""
        self._ends = False

    async def take(self, messages: AsyncIterator[exec_pb2.AttachExecRequest]) -> None:
        """Handles the client's messages until it leaves; an invalid one ends its view."""
        async with Workers() as workers:
            try:
                async for message in messages:
                    if not await self._do(message, workers):
                        return
                await self._pieces.join()
            except HermesError as error:
                self.view.fail(error)

    async def _give(self, workers: Workers, offset: int | None, data: bytes = b"") -> None:
        """Queues input, so that a command that does not read does not block other messages."""
        if not self.view.gives_input:
            self.view.gives_input = True
            workers.start(f"feed {self._command.exec_id}", self._feed())
        await self._pieces.put((offset, data))

    async def _feed(self) -> None:
        try:
            while True:
                offset, data = await self._pieces.get()
                if self._command.record.exit is None:
                    await self._sandbox.get_connection().link()
                    await self._command.write_input(offset, data, ends=offset is None)
                self._pieces.task_done()
        except HermesError as error:
            self.view.fail(error)

    async def _do(self, message: exec_pb2.AttachExecRequest, workers: Workers) -> bool:
        """Handles a message; returns False when the client leaves."""
        kind = message.WhichOneof("kind")
        if kind == "detach":
            if self._ends:
                await self._pieces.join()
            self.view.close()
            return False
        if self._epoch not in (0, self._sandbox.claim.epoch):
            raise StaleEpoch(f"sandbox {self._sandbox.claim.sandbox_id} has a later owner")
        match kind:
            case "stdin" if len(message.stdin.data) <= _MOST_INPUT_BYTES:
                offset = in_range("offset", message.stdin.offset, 0, 1 << 62)
                await self._give(workers, offset, message.stdin.data)
            case "stdin_eof":
                self._ends = True
                await self._give(workers, None)
            case "resize":
                self._command.resize(terminal(message.resize))
            case "signal":
                self._command.signal(in_range("number", message.signal.number, 1, _HIGHEST_SIGNAL))
            case _:
                wanted = "input of up to 32 KiB, or what may follow the opening"
                raise InvalidArgument(f"{wanted} is wanted", fields={str(kind): wanted})
        return True


def terminal(size: exec_pb2.TerminalSize) -> TerminalSize:
    """Convert the size of a terminal; fails with InvalidArgument."""
    return TerminalSize(
        in_range("row_count", size.row_count, 1, _MOST_CELLS),
        in_range("column_count", size.column_count, 1, _MOST_CELLS),
    )
