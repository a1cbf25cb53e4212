"""A command in a sandbox over a stream that survives cuts without losses or repeats."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import grpc.aio

from hermes.executor.v1 import exec_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from services.errors import is_passing
from services.rpc.streams import Requests, Stream, resume

RECONNECT_S = 60.0
PIECE_BYTES = 32 * 1024
WAITING_BYTES = 1024 * 1024
"""The most pending input that is kept."""

Happened = exec_pb2.AttachExecResponse.Output | exec_pb2.Exit


class ExecStream:
    """A command; iterate `happenings` while giving it input."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        named: Mapping[str, Any],
        opening: exec_pb2.AttachExecRequest,
    ) -> None:
        """`opening` has `start` for a new command, and `open` for a running one."""
        self._stub = ExecServiceStub(channel)
        self._named = named
        self._opening = opening
        self._requests = Requests[exec_pb2.AttachExecRequest]()
        self._offsets = [opening.open.stdout_offset, opening.open.stderr_offset]
        """The offsets up to which output was read."""
        self._input = bytearray()
        """Input that is not known to have arrived."""
        self._arrived: int | None = None
        """The offset of that in all input; None if unknown."""
        self._ends = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._size: exec_pb2.TerminalSize | None = None
        self._takes_input = False
        """Whether the current call has said from where it wants input."""

    @property
    def exec_id(self) -> str:
        return self._opening.start.exec_id or self._opening.open.exec_id

    async def write(self, data: bytes) -> None:
        """Write input; waits while much of it is pending."""
        await self._has_room.wait()
        start = len(self._input)
        self._input += data
        if len(self._input) >= WAITING_BYTES:
            self._has_room.clear()
        self._send_input(start)

    def end_input(self) -> None:
        self._ends = True
        self._send(stdin_eof=exec_pb2.AttachExecRequest.StdinEof())

    def resize(self, size: exec_pb2.TerminalSize) -> None:
        self._size = size
        self._send(resize=size)

    async def happenings(self) -> AsyncGenerator[Happened]:
        """Yield output and finally the exit, across reconnects."""
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
        self._requests, self._takes_input = Requests([self._opening]), False
        return self._stub.AttachExec(self._requests)

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
        # After a cut, continue at the same offsets.
        stdout, stderr = self._offsets
        opened = exec_pb2.AttachExecRequest.Open(
            **self._named, exec_id=self.exec_id, stdout_offset=stdout, stderr_offset=stderr
        )
        self._opening = exec_pb2.AttachExecRequest(open=opened)

    def _advance_input(self, offset: int) -> None:
        if self._arrived is None:
            self._arrived = offset  # others may have sent input before
        del self._input[: max(0, offset - self._arrived)]
        self._arrived = max(self._arrived, offset)
        if len(self._input) < WAITING_BYTES:
            self._has_room.set()
        if not self._takes_input:
            self._takes_input = True
            if self._size is not None:
                self._send(resize=self._size)
            self._send_input(0)
            if self._ends:
                self.end_input()

    def _send_input(self, start: int) -> None:
        """Send pending input from an offset."""
        for at in range(start, len(self._input), PIECE_BYTES):
            offset, data = (self._arrived or 0) + at, bytes(self._input[at : at + PIECE_BYTES])
            self._send(stdin=exec_pb2.AttachExecRequest.Stdin(offset=offset, data=data))

    def _send(self, **request: Any) -> None:
        """Send an input request once the current call takes input."""
        if self._takes_input:
            self._requests.send(exec_pb2.AttachExecRequest(**request))
