"""A command in a sandbox, watched and driven over a stream that may be cut: nothing twice, nothing
lost.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import grpc.aio

from hermes.executor.v1 import exec_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from services.errors import is_passing
from services.streams import Stream, resume

RECONNECT_S = 60.0
ACK_BYTES = 1024 * 1024
"""Output is acknowledged whenever so much of it was read."""
PIECE_BYTES = 32 * 1024
WAITING_BYTES = 1024 * 1024
"""Input that has not reached the command is kept, up to so much."""

Happened = exec_pb2.AttachExecResponse.Output | exec_pb2.Exit


class ExecStream:
    """One command; iterate `happenings` while giving it input."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        named: Mapping[str, Any],
        opening: exec_pb2.AttachExecRequest,
    ) -> None:
        """Take what each request says of the sandbox, and what opens the stream first.

        That is `start` for a new command, and `open` for one that runs.
        """
        self._stub = ExecServiceStub(channel)
        self._named = named
        self._opening = opening
        self._offsets = [opening.open.stdout_offset, opening.open.stderr_offset]
        """How far its output was read."""
        self._input = bytearray()
        """What has not reached the command, as far as is known."""
        self._arrived: int | None = None
        """Where that begins, in all input that it was ever given; None: not known yet."""
        self._ends = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._size: exec_pb2.TerminalSize | None = None
        self._takes_input = False
        """Whether the present call has said from where on it wants input."""
        self._changed = asyncio.Event()
        """There may be something to send over the present call; each has its own."""

    @property
    def exec_id(self) -> str:
        """The command's id."""
        return self._opening.start.exec_id or self._opening.open.exec_id

    async def write(self, data: bytes) -> None:
        """Give the command input; waits while much of it has not arrived."""
        await self._has_room.wait()
        self._input += data
        if len(self._input) >= WAITING_BYTES:
            self._has_room.clear()
        self._changed.set()

    def end_input(self) -> None:
        """No more input follows."""
        self._ends = True
        self._changed.set()

    def resize(self, size: exec_pb2.TerminalSize) -> None:
        """The terminal has this size from now on."""
        self._size = size
        self._changed.set()

    async def happenings(self) -> AsyncGenerator[Happened]:
        """What the command writes, and last how it ended, across reconnects."""
        stream = resume(
            self._connect,
            lambda message: message.HasField("exited"),
            patience_s=RECONNECT_S,
            passes=is_passing,
        )
        try:
            async with aclosing(stream) as messages:
                async for message in messages:
                    self._follow(message)
                    if message.HasField("output"):
                        yield message.output
                    elif message.HasField("exited"):
                        yield message.exited
        finally:
            self._end_call()

    def _connect(self) -> Stream[exec_pb2.AttachExecResponse]:
        self._end_call()
        return self._stub.AttachExec(self._requests(self._changed))

    def _end_call(self) -> None:
        """Let the last call have no more requests; gRPC waits for it even when it has ended."""
        ended, self._changed, self._takes_input = self._changed, asyncio.Event(), False
        ended.set()

    async def _requests(self, changed: asyncio.Event) -> AsyncGenerator[exec_pb2.AttachExecRequest]:
        """The requests of one call."""
        yield self._opening
        acknowledged, sent, has_ended = sum(self._offsets), 0, False
        size: exec_pb2.TerminalSize | None = None
        while changed is self._changed:
            if sum(self._offsets) - acknowledged >= ACK_BYTES:
                acknowledged = sum(self._offsets)
                stdout, stderr = self._offsets
                ack = exec_pb2.AttachExecRequest.Ack(stdout_offset=stdout, stderr_offset=stderr)
                yield exec_pb2.AttachExecRequest(ack=ack)
            if self._takes_input and self._size is not size:
                size = self._size
                yield exec_pb2.AttachExecRequest(resize=size)
            if self._takes_input and (piece := self._piece(sent)) is not None:
                sent = piece.offset + len(piece.data)
                yield exec_pb2.AttachExecRequest(stdin=piece)
                continue
            if self._takes_input and self._ends and not has_ended:
                has_ended = True
                yield exec_pb2.AttachExecRequest(stdin_eof=exec_pb2.AttachExecRequest.StdinEof())
            await changed.wait()
            changed.clear()

    def _piece(self, sent: int) -> exec_pb2.AttachExecRequest.Stdin | None:
        """What follows the input that a call has sent so far; None when that is all."""
        arrived = self._arrived or 0
        start = max(sent - arrived, 0)
        data = bytes(self._input[start : start + PIECE_BYTES])
        return exec_pb2.AttachExecRequest.Stdin(offset=arrived + start, data=data) if data else None

    def _follow(self, message: exec_pb2.AttachExecResponse) -> None:
        match message.WhichOneof("kind"):
            case "output":
                output = message.output
                is_error = output.stream == exec_pb2.OUTPUT_STREAM_STDERR
                self._offsets[is_error] = output.offset + len(output.data)
            case "stdin_ack_offset":
                self._advance_input(message.stdin_ack_offset)
            case _:
                pass
        # After a cut the stream goes on where it was.
        stdout, stderr = self._offsets
        opened = exec_pb2.AttachExecRequest.Open(
            **self._named, exec_id=self.exec_id, stdout_offset=stdout, stderr_offset=stderr
        )
        self._opening = exec_pb2.AttachExecRequest(open=opened)
        self._changed.set()

    def _advance_input(self, offset: int) -> None:
        """All input before an offset has arrived."""
        if self._arrived is None:
            self._arrived = offset  # others may have given it input before
        del self._input[: max(0, offset - self._arrived)]
        self._arrived = max(self._arrived, offset)
        self._takes_input = True
        if len(self._input) < WAITING_BYTES:
            self._has_room.set()
