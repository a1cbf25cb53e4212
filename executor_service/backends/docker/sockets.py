"""The sockets by which the executor reaches boxes of a local engine.

Each box has one, in a folder that only the executor's user can enter. The executor makes it and
passes it, listening, to the box's supervisor before anything else runs in the box. It does so over
a second socket, the handover socket, in a folder that the box sees read-only and that is removed
afterwards. So neither the engine nor a command can come between executor and supervisor.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Set
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from executor_service.backends.process_records import Records, listener_at
from executor_service.errors import BoxCreateFailed
from executor_service.link.byte_streams import SocketStream

_HANDOVER = "handover"
_SOCKET = "socket"
HANDOVER = "/opt/hermes-handover"
"""Where a box sees the folder with the handover socket."""
HANDOVER_SOCKET = f"{HANDOVER}/{_SOCKET}"


class NewSockets(Struct):
    """The sockets of a box that is being made."""

    folder: Path
    """The folder that the box sees at HANDOVER."""
    handover: socket.socket
    """Where the supervisor asks for the listener."""
    listener: socket.socket
    is_handed_over: bool = False

    async def wait(self, timeout_s: float) -> bool:
        """Pass the listener to the supervisor when it asks; False if it does not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                supervisor, _ = await asyncio.get_running_loop().sock_accept(self.handover)
            with supervisor:
                socket.send_fds(supervisor, [b"1"], [self.listener.fileno()])
        except OSError:
            return False
        self.is_handed_over = True
        return True


class BoxSockets:
    """The sockets of all boxes, below one folder."""

    def __init__(self, folder: Path) -> None:
        self._records = Records(folder)

    @asynccontextmanager
    async def create(self, key: str) -> AsyncGenerator[NewSockets]:
        """Make a box's sockets for the time of its start; unused ones are removed."""
        with ExitStack() as sockets:
            handover = await asyncio.to_thread(self._prepare, key, sockets)
            try:
                yield handover
            finally:
                await asyncio.to_thread(self._clear, key, handover)

    async def connect(self, key: str) -> SocketStream:
        """A new stream to a box; FileNotFoundError without a socket, OSError if the box is gone."""
        return SocketStream(await asyncio.to_thread(self._records.connect, key))

    async def forget(self, key: str) -> None:
        await asyncio.to_thread(self._records.forget, key)

    async def forget_others(self, living: Set[str]) -> None:
        await asyncio.to_thread(self._forget_others, living)

    def _prepare(self, key: str, sockets: ExitStack) -> NewSockets:
        try:
            folder = self._records.prepare(key) / _HANDOVER
        except FileExistsError as error:
            raise BoxCreateFailed(f"the name of box {key} is already in use") from error
        try:
            folder.mkdir()
            listener = sockets.enter_context(self._records.listener(key))
            handover = sockets.enter_context(listener_at(folder / _SOCKET))
            # A box's user is not always the executor's; others on this machine cannot come here.
            folder.chmod(0o755)
            (folder / _SOCKET).chmod(0o666)
        except BaseException:
            self._records.forget(key)
            raise
        handover.setblocking(False)
        return NewSockets(folder, handover, listener)

    def _clear(self, key: str, handover: NewSockets) -> None:
        if handover.is_handed_over:
            (handover.folder / _SOCKET).unlink()
            handover.folder.rmdir()
        else:
            self._records.forget(key)

    def _forget_others(self, living: Set[str]) -> None:
        for key in self._records.keys() - living:
            # Another engine may have boxes here too, and one may be about to be made.
            if self._records.is_settled(key) and not self._is_listening(key):
                self._records.forget(key)

    def _is_listening(self, key: str) -> bool:
        try:
            self._records.connect(key).close()
        except OSError:
            return False
        return True
