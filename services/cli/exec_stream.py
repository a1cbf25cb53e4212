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
from services.streams import Requests, Stream, resume

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
        self._acknowledged = sum(self._offsets)
        self._requests = Requests[exec_pb2.AttachExecRequest]()
        self._takes_input = False
        """Whether the present call has said from where on it wants input."""
        self._input = _Input()
        self._size: exec_pb2.TerminalSize | None = None

    @property
    def exec_id(self) -> str:
        """The command's id."""
        return self._opening.start.exec_id or self._opening.open.exec_id

    async def write(self, data: bytes) -> None:
        """Give the command input; waits while much of it has not arrived."""
        await self._input.add(data)
        self._flush()

    def end_input(self) -> None:
        """No more input follows."""
        self._input.ends = True
        self._flush()

    def resize(self, size: exec_pb2.TerminalSize) -> None:
        """The terminal has this size from now on."""
        self._size = size
        if self._takes_input:
            self._requests.send(exec_pb2.AttachExecRequest(resize=size))

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
            self._requests.end()

    def _connect(self) -> Stream[exec_pb2.AttachExecResponse]:
        self._requests.end()
        self._takes_input, self._requests = False, Requests([self._opening])
        return self._stub.AttachExec(self._requests)

    def _follow(self, message: exec_pb2.AttachExecResponse) -> None:
        match message.WhichOneof("kind"):
            case "opened":
                self._reopen_from_here()
            case "output":
                self._advance(message.output)
                self._acknowledge()
            case "stdin_ack_offset":
                is_first, self._takes_input = not self._takes_input, True
                self._input.taken(message.stdin_ack_offset, again=is_first)
                if is_first and self._size is not None:
                    self._requests.send(exec_pb2.AttachExecRequest(resize=self._size))
                self._flush()
            case _:
                pass

    def _reopen_from_here(self) -> None:
        """After a cut the stream goes on where it was."""
        opened = exec_pb2.AttachExecRequest.Open(
            **self._named,
            exec_id=self.exec_id,
            stdout_offset=self._offsets[0],
            stderr_offset=self._offsets[1],
        )
        self._opening = exec_pb2.AttachExecRequest(open=opened)

    def _advance(self, output: exec_pb2.AttachExecResponse.Output) -> None:
        is_error = output.stream == exec_pb2.OUTPUT_STREAM_STDERR
        self._offsets[is_error] = output.offset + len(output.data)
        self._reopen_from_here()

    def _acknowledge(self) -> None:
        if sum(self._offsets) - self._acknowledged >= ACK_BYTES:
            self._acknowledged = sum(self._offsets)
            stdout, stderr = self._offsets
            ack = exec_pb2.AttachExecRequest.Ack(stdout_offset=stdout, stderr_offset=stderr)
            self._requests.send(exec_pb2.AttachExecRequest(ack=ack))

    def _flush(self) -> None:
        """Send what input has not been sent over this stream."""
        while self._takes_input and (piece := self._input.next()) is not None:
            self._requests.send(piece)


class _Input:
    """Input that the command may still need, and how much of it was sent."""

    def __init__(self) -> None:
        self.ends = False
        self._has_begun = False
        self._kept = bytearray()
        self._base = 0
        """Where what is kept begins, in all input so far."""
        self._sent = 0
        self._end_sent = False
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def add(self, data: bytes) -> None:
        """Keep more of it, when there is room."""
        await self._has_room.wait()
        self._kept += data
        if len(self._kept) >= WAITING_BYTES:
            self._has_room.clear()

    def taken(self, offset: int, *, again: bool) -> None:
        """All before an offset has arrived; `again` sends the rest over a new stream."""
        if not self._has_begun:
            self._has_begun, self._base = True, offset  # others may have given it input before
        del self._kept[: max(0, offset - self._base)]
        self._base = max(self._base, offset)
        self._sent = self._base if again else max(self._sent, self._base)
        self._end_sent = self._end_sent and not again
        if len(self._kept) < WAITING_BYTES:
            self._has_room.set()

    def next(self) -> exec_pb2.AttachExecRequest | None:
        """The next piece to be sent, then the end; None when that is all."""
        start = self._sent - self._base
        if data := bytes(self._kept[start : start + PIECE_BYTES]):
            piece = exec_pb2.AttachExecRequest.Stdin(offset=self._sent, data=data)
            self._sent += len(data)
            return exec_pb2.AttachExecRequest(stdin=piece)
        if self.ends and not self._end_sent:
            self._end_sent = True
            return exec_pb2.AttachExecRequest(stdin_eof=exec_pb2.AttachExecRequest.StdinEof())
        return None
