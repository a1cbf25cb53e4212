"""Input on its way to a command, as fast as the command reads it."""

import asyncio

from msgspec import Struct

from executor_service.claims.sandbox import Sandbox
from executor_service.commands.command import Command

_WAITING_PIECES = 32


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
