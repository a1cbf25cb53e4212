"""One command in a box, as seen over one link to that box."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from executor_service.errors import ExecutorError
from executor_service.link.messages import CommandState, TerminalSize, read
from executor_service.link.outbox import Outgoing
from executor_service.records.sandboxes import EndReason, Exit
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError

_MOST_UNACKED_BYTES = frames.WINDOW_BYTES + 2 * frames.MAX_OUTPUT_BYTES


class CommandSink(Protocol):
    """Receives a command's events; called from the link's reader, so it must return quickly."""

    def output(self, fd: int, offset: int, data: memoryview) -> None:
        """Take bytes of stdout (1) or stderr (2), each exactly once and in order.

        Output continues only after `ExecHandle.ack`. The buffer of data never changes.
        """
        ...

    def stdin_taken(self, offset: int) -> None:
        """Record how much of its input the command has read."""
        ...

    def exited(self, exit_: Exit) -> None:
        """The command is over; nothing comes after this."""
        ...

    def lost(self, error: ExecutorError) -> None:
        """The link ended before the command did."""
        ...


class ExecHandle:
    """A command of a box over one link."""

    def __init__(
        self,
        ident: int,
        state: CommandState,
        outgoing: Outgoing,
        on_forgotten: Callable[["ExecHandle"], None],
    ) -> None:
        self.ident = ident
        """The number of its frames."""
        self.exec_id = state.exec_id
        self.state = state
        """The state when this handle was made."""
        self.exit: Exit | None = None
        self.sink: CommandSink | None = None
        self._on_forgotten = on_forgotten
        self._outgoing = outgoing
        self._received: dict[int, int] = dict(zip((1, 2), state.acked, strict=True))
        self._acked = dict(self._received)
        self._stdin_sent = state.stdin_received
        self._stdin_taken = state.stdin_taken
        self._stdin_moved = asyncio.Event()
        self._error: ExecutorError | None = None

    def ack(self, fd: int, offset: int) -> None:
        """Confirm that output before offset is stored; the box forgets it and sends more."""
        if not self._acked[fd] <= offset <= self._received[fd]:
            raise ValueError(f"acknowledged {offset} of {self._received[fd]} received bytes")
        self._acked[fd] = offset
        self._outgoing.send(frames.ACK, self.ident, frames.OUTPUT_HEAD.pack(fd, offset))

    async def write_stdin(self, offset: int, data: bytes, ends: bool = False) -> None:
        """Send input as fast as the command reads it; raises the link's error if it ends.

        Bytes that the box already has are skipped, so they may be repeated; a gap is a ValueError.
        """
        if offset > self._stdin_sent:
            raise ValueError(f"input at {offset} follows {self._stdin_sent} bytes")
        view = memoryview(data)[self._stdin_sent - offset :]
        while view or ends:
            room = await self._stdin_room()
            piece, view = view[:room], view[room:]
            last = ends and not view
            head = frames.STDIN_HEAD.pack(self._stdin_sent, last)
            self._stdin_sent += len(piece)
            self._outgoing.send(frames.STDIN, self.ident, head, piece)
            if last:
                return

    def resize(self, size: TerminalSize) -> None:
        message = {"rows": size.rows, "columns": size.columns}
        self._outgoing.send_json(frames.RESIZE, self.ident, message)

    def signal(self, number: int) -> None:
        self._outgoing.send_json(frames.SIGNAL, self.ident, {"signal": number})

    def cancel(self, reason: EndReason = EndReason.CANCELLED, grace_s: float | None = None) -> None:
        """End the whole tree: SIGTERM, and SIGKILL after the grace period; the exit follows.

        None takes the command's own grace period, 0 kills at once. A later call can shorten it.
        """
        message = {"reason": reason.value, "grace_s": grace_s}
        self._outgoing.send_json(frames.CANCEL, self.ident, message)

    def forget(self) -> None:
        """Let the box drop a finished command, once its exit is stored."""
        if self.exit is None:
            raise ValueError("a command that has not finished cannot be forgotten")
        self._on_forgotten(self)
        self._outgoing.send(frames.FORGET, self.ident)

    def on_output(self, payload: memoryview) -> None:
        (fd, offset), data = frames.split_head(frames.OUTPUT_HEAD, payload)
        if self.exit is not None or fd not in self._received:
            raise FrameError("output after the exit or on no stream")
        if offset != self._received[fd] or not 0 < len(data) <= frames.MAX_OUTPUT_BYTES:
            raise FrameError("output with a gap or of a wrong size")
        self._received[fd] += len(data)
        if sum(self._received.values()) - sum(self._acked.values()) > _MOST_UNACKED_BYTES:
            raise FrameError("more output than was asked for")
        if self.sink is not None:
            self.sink.output(fd, offset, data)
        else:
            self.ack(fd, self._received[fd])

    def on_stdin_ack(self, payload: memoryview) -> None:
        (taken,), _ = frames.split_head(frames.STDIN_ACK_BODY, payload)
        if not self._stdin_taken <= taken <= self._stdin_sent:
            raise FrameError("took input that was not sent")
        self._stdin_taken = taken
        self._stdin_moved.set()
        if self.sink is not None:
            self.sink.stdin_taken(taken)

    def on_exited(self, payload: memoryview) -> None:
        exit_ = read(frames.read_json(payload), Exit)
        if self.exit is not None:
            raise FrameError("a second exit")
        if tuple(self._received.values()) != exit_.totals:
            raise FrameError("exit does not count the output that came")
        self.exit = exit_
        self._stdin_moved.set()
        if self.sink is not None:
            self.sink.exited(exit_)
        else:
            self.forget()

    def on_link_ended(self, error: ExecutorError) -> None:
        self._error = error
        self._stdin_moved.set()
        if self.sink is not None and self.exit is None:
            self.sink.lost(error)

    async def _stdin_room(self) -> int:
        """Return how many bytes may be sent now; waits until it is at least one."""
        while True:
            await self._outgoing.room()
            if self._error is not None:
                raise self._error
            if self.exit is not None:
                return frames.MAX_DATA_BYTES
            room = frames.STDIN_WINDOW_BYTES - (self._stdin_sent - self._stdin_taken)
            if room > 0:
                return min(room, frames.MAX_DATA_BYTES)
            self._stdin_moved.clear()
            await self._stdin_moved.wait()
