"""What a client sends over AttachExec."""

import asyncio
from collections.abc import AsyncIterator

from executor_service.execs.command import Command
from executor_service.link.messages import TerminalSize
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.servicer.fields import in_range
from executor_service.servicer.views import CommandView
from hermes.executor.v1 import exec_pb2
from services.errors import HermesError, InvalidArgument, StaleEpoch
from services.lifecycle import Workers

_WAITING_PIECES = 32
_MOST_INPUT_BYTES = 32 * 1024
_HIGHEST_SIGNAL = 31
_MOST_CELLS = 1000


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
        self._pieces: asyncio.Queue[tuple[int | None, bytes]] = asyncio.Queue(_WAITING_PIECES)
        """Input by its offset; None is its end."""
        self._ends = False

    async def take(self, messages: AsyncIterator[exec_pb2.AttachExecRequest]) -> None:
        """Does what the client asks until it leaves; what it may not do ends its view."""
        async with Workers() as workers:
            try:
                async for message in messages:
                    if not await self._do(message, workers):
                        return
                await self._pieces.join()
            except HermesError as error:
                self.view.fail(error)

    async def _give(self, workers: Workers, offset: int | None, data: bytes = b"") -> None:
        """Adds input, apart from the rest so that a command that does not read stops nothing."""
        if not self.view.gives_input:
            self.view.gives_input = True
            workers.start(f"feed {self._command.exec_id}", self._feed())
        await self._pieces.put((offset, data))

    async def _feed(self) -> None:
        """Hands the input over, until cancelled."""
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
        """False when the client leaves."""
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
    """The size of a terminal; fails with InvalidArgument."""
    return TerminalSize(
        in_range("row_count", size.row_count, 1, _MOST_CELLS),
        in_range("column_count", size.column_count, 1, _MOST_CELLS),
    )
