"""Watching one command: its output from any offset on, as fast as the watcher takes it.

A view reads what the spool has: any number may watch, each at its own pace. The command is held
back a little for the foremost of them (`executor_service.execs.output_pacer`), and one that is slow
all the same misses what the spool had to drop in the meantime.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import cast

from executor_service.execs.command import INPUT_LOST, Command
from executor_service.execs.segments import STREAMS
from executor_service.records.sandboxes import Exit
from executor_service.servicer.fields import duration
from hermes.executor.v1 import exec_pb2
from services.errors import HermesError, Unavailable
from services.rpc.messages import message_of

PIECE_BYTES = 256 * 1024
"""In one message, of which each costs as much as copying so many bytes."""
_HEARTBEAT_S = 5.0

Event = exec_pb2.AttachExecResponse


class CommandView:
    """What one watcher sees of a command."""

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
        """Whether the watcher is also the one who gives the command its input."""

    def close(self) -> None:
        """Ends the events, without an exit."""
        self._closed = True
        self._changed.set()

    def fail(self, error: HermesError) -> None:
        """Ends the events with an error."""
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
        # Whether it had ended before the last of its output was looked for.
        ended = self._command.record.exit
        for stream in STREAMS:
            happened += await self._read(stream)
        if ended is not None and self._is_drained:
            happened.append(Event(exited=exit_to_wire(ended)))
        elif asyncio.get_running_loop().time() >= self._next_heartbeat:
            self._next_heartbeat += _HEARTBEAT_S
            happened.append(self._heartbeat())
        return happened

    def _behind_bytes(self) -> int:
        """How much of what there is has not been sent to the watcher."""
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
        """What comes next of a stream."""
        position = self._sent[stream]
        if position >= self._command.spool.end(stream):
            return []
        start, data = await self._command.spool.read(stream, position, PIECE_BYTES)
        self._sent[stream] = start + len(data)
        self._command.pacer.on_progress()
        if not data and start == position:
            return []
        # Filled in where it is: to make it apart would copy the data twice more.
        event = Event()
        # Numbered on the wire as in the command.
        event.output.stream = cast("exec_pb2.OutputStream.ValueType", stream)
        event.output.offset = start
        event.output.data = data
        if start > position:
            event.output.dropped_before_offset = start
        return [event]

    def _heartbeat(self) -> Event:
        usage = self._command.usage
        return Event(
            heartbeat=Event.Heartbeat(
                rss_bytes=usage.rss_bytes,
                cpu_time=duration(usage.cpu_ms / 1000),
                process_count=usage.pids,
            )
        )

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_heartbeat):
                await self._changed.wait()


def exit_to_wire(ended: Exit) -> exec_pb2.Exit:
    """How a command ended."""
    return message_of(
        ended,
        exec_pb2.Exit,
        stdout_bytes=ended.totals[0],
        stderr_bytes=ended.totals[1],
        survivor_count=ended.survivors,
        duration=duration(ended.duration_ms / 1000),
    )
