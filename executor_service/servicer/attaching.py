"""What a client sends over AttachExec."""

import asyncio
from collections.abc import AsyncIterator

from msgspec import Struct

from executor_service.claims.sandbox import Sandbox
from executor_service.commands.command import Command
from executor_service.link import TerminalSize
from executor_service.servicer.fields import in_range
from executor_service.servicer.views import CommandView
from hermes.executor.v1 import exec_pb2
from services.errors import HermesError, InvalidArgument, StaleEpoch
from services.lifecycle import Workers

_WAITING_PIECES = 32
_MOST_INPUT_BYTES = 32 * 1024
_HIGHEST_SIGNAL = 31
_MOST_CELLS = 1000


class _Piece(Struct, frozen=True):
    """Bytes of input; without an offset the end of it."""

    offset: int | None
    data: bytes = b""


class CommandInput:
    """The input that one client gives a command."""

    def __init__(self, sandbox: Sandbox, command: Command) -> None:
        self._sandbox = sandbox
        self._command = command
        self._pieces: asyncio.Queue[_Piece] = asyncio.Queue(_WAITING_PIECES)

    async def put(self, offset: int, data: bytes) -> None:
        """Adds input; waits while much is waiting."""
        await self._pieces.put(_Piece(offset, data))

    async def put_end(self) -> None:
        """Ends the input after what was added."""
        await self._pieces.put(_Piece(None))

    async def done(self) -> None:
        """Returns when the box has everything that was added."""
        await self._pieces.join()

    async def run(self) -> None:
        """Hands the input over, until cancelled; fails as the channel to the box does."""
        while True:
            piece = await self._pieces.get()
            if self._command.record.exit is None:
                await self._sandbox.box().link()
                is_end = piece.offset is None
                await self._command.write_input(piece.offset, piece.data, ends=is_end)
            self._pieces.task_done()


class Attachment:
    """One client's view of a command, and what it makes the command do."""

    def __init__(
        self, sandbox: Sandbox, command: Command, epoch: int, offsets: tuple[int, int] = (0, 0)
    ) -> None:
        """Take the epoch of the client's lease; an operator has none, which is 0."""
        self.view = CommandView(command, *offsets)
        self._sandbox = sandbox
        self._command = command
        self._epoch = epoch
        self._input: CommandInput | None = None

    async def take(self, messages: AsyncIterator[exec_pb2.AttachExecRequest]) -> None:
        """Does what the client asks until it leaves; what it may not do ends its view."""
        async with Workers() as workers:
            try:
                async for message in messages:
                    if not await self._do(message, workers):
                        return
                self.view.confirm_all()
                if self._input is not None:
                    await self._input.done()
            except HermesError as error:
                self.view.fail(error)

    def _feed(self, workers: Workers) -> CommandInput:
        """The way for input, which is apart so that a command that does not read stops nothing."""
        if self._input is None:
            self._input = CommandInput(self._sandbox, self._command)
            self.view.gives_input = True
            workers.start(f"feed {self._command.exec_id}", self._hand_over(self._input))
        return self._input

    async def _hand_over(self, feed: CommandInput) -> None:
        try:
            await feed.run()
        except HermesError as error:
            self.view.fail(error)

    async def _do(self, message: exec_pb2.AttachExecRequest, workers: Workers) -> bool:
        """False when the client leaves."""
        kind = message.WhichOneof("kind")
        if kind == "ack":
            self.view.confirm(message.ack.stdout_offset, message.ack.stderr_offset)
            return True
        if kind == "detach":
            self.view.close()
            return False
        if self._epoch not in (0, self._sandbox.claim.epoch):
            raise StaleEpoch(f"sandbox {self._sandbox.claim.sandbox_id} has a later owner")
        match kind:
            case "stdin" if len(message.stdin.data) <= _MOST_INPUT_BYTES:
                offset = in_range("offset", message.stdin.offset, 0, 1 << 62)
                await self._feed(workers).put(offset, message.stdin.data)
            case "stdin_eof":
                await self._feed(workers).put_end()
            case "resize":
                self._command.resize(terminal(message.resize))
            case "signal":
                self._command.signal(in_range("number", message.signal.number, 1, _HIGHEST_SIGNAL))
            case _:
                wanted = "input of up to 32 KiB, or what may follow the opening"
                raise InvalidArgument(f"{wanted} is wanted", fields={str(kind): wanted})
        return True


def terminal(size: exec_pb2.TerminalSize) -> TerminalSize:
    """The size of a terminal; fails with InvalidArgument."""
    return TerminalSize(
        in_range("row_count", size.row_count, 1, _MOST_CELLS),
        in_range("column_count", size.column_count, 1, _MOST_CELLS),
    )
