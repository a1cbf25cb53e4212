"""A command in a sandbox, over one stream."""

import asyncio
from collections.abc import AsyncGenerator

import grpc.aio

from hermes.executor.v1 import exec_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from services.errors import ServiceUnavailable, is_passing, message_of
from services.rpc.streams import Requests, open_stream

PIECE_BYTES = 32 * 1024
WAITING_BYTES = 1024 * 1024
"""How much input may be sent that has not arrived."""

Happened = exec_pb2.AttachExecResponse.Output | exec_pb2.Exit


class ExecStream:
    """A command; iterate `happenings` while giving it input."""

    def __init__(self, channel: grpc.aio.Channel, opening: exec_pb2.AttachExecRequest) -> None:
        """`opening` has `start` for a new command, and `open` for a running one."""
        self.exec_id = opening.start.exec_id or opening.open.exec_id
        self._stub = ExecServiceStub(channel)
        self._requests = Requests([opening])
        self._sent = self._arrived = -1
        """The offsets in all input; -1 until the command takes any."""
        self._has_room = asyncio.Event()

    async def write(self, data: bytes) -> None:
        """Write input; waits while much of it has not arrived."""
        for start in range(0, len(data), PIECE_BYTES):
            await self._has_room.wait()
            piece = data[start : start + PIECE_BYTES]
            stdin = exec_pb2.AttachExecRequest.Stdin(offset=self._sent, data=piece)
            self._requests.send(exec_pb2.AttachExecRequest(stdin=stdin))
            self._sent += len(piece)
            if self._sent - self._arrived >= WAITING_BYTES:
                self._has_room.clear()

    async def end_input(self) -> None:
        await self._has_room.wait()
        eof = exec_pb2.AttachExecRequest.StdinEof()
        self._requests.send(exec_pb2.AttachExecRequest(stdin_eof=eof))

    def resize(self, size: exec_pb2.TerminalSize) -> None:
        self._requests.send(exec_pb2.AttachExecRequest(resize=size))

    async def happenings(self) -> AsyncGenerator[Happened]:
        """Yield output and finally the exit; raises ServiceUnavailable if the stream is cut."""
        is_open, why = False, "the stream ended"
        try:
            async with open_stream(self._stub.AttachExec(self._requests)) as answers:
                async for message in answers:
                    is_open = True
                    match message.WhichOneof("kind"):
                        case "stdin_ack_offset":
                            self._acknowledge(message.stdin_ack_offset)
                        case "output":
                            yield message.output
                        case "exited":
                            yield message.exited
                            return
                        case _:
                            pass
        except grpc.aio.AioRpcError as error:
            if not (is_open and is_passing(error)):
                raise
            why = message_of(error)
        finally:
            self._requests.end()
        raise ServiceUnavailable(f"the connection to the command was lost: {why}")

    def _acknowledge(self, offset: int) -> None:
        self._arrived, self._sent = offset, max(offset, self._sent)
        if self._sent - offset < WAITING_BYTES:
            self._has_room.set()
