"""The machine behind SSH, for asyncio: commands and streams.

A server limits the sessions of a connection (`MaxSessions`, usually ten), and every box holds one.
So connections are opened as needed, and replaced when lost.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from executor_service.backends.ssh.connection import Answer, Connection, SessionRefused
from executor_service.config import SshConfig
from executor_service.errors import BackendUnavailable
from executor_service.link.byte_streams import SocketStream

T = TypeVar("T")

CALL_DEADLINE_S = 30.0
_THREADS = 8
_MAX_CONNECTIONS = 16


class Machine:
    """One account of one machine; owns the connections and the threads that wait for them."""

    def __init__(self, options: SshConfig) -> None:
        self.options = options
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ssh")
        self._opening = threading.Lock()
        self._connections: list[Connection] = []

    async def run(
        self, command: str, sent: bytes = b"", deadline_s: float = CALL_DEADLINE_S
    ) -> Answer:
        """Run a command to its end; fails with BackendUnavailable."""
        return await self._call(
            lambda connection: connection.run(command, sent, deadline_s), deadline_s
        )

    async def stream(self, command: str) -> SocketStream:
        """Run a command and use its streams; fails with BackendUnavailable."""
        return SocketStream(
            await self._call(
                lambda connection: connection.stream(command), CALL_DEADLINE_S, socket.socket.close
            )
        )

    async def close(self) -> None:
        """Close connections and threads; a call that hangs is left to its deadline."""
        for connection in self._connections:
            self._pool.submit(connection.close)
        self._pool.shutdown(wait=False)

    async def _call(
        self,
        job: Callable[[Connection], T],
        deadline_s: float,
        undo: Callable[[T], object] = lambda _: None,
    ) -> T:
        """Do job in a thread; a result that comes too late is undone."""
        future = self._pool.submit(self._with_connection, job)
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.wrap_future(future)
        except (asyncio.CancelledError, TimeoutError) as error:
            future.add_done_callback(lambda late: _undo(late, undo))
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._silent(f"no answer within {deadline_s:g} s") from error
        except OSError as error:
            raise self._silent(str(error) or type(error).__name__) from error

    def _silent(self, why: str) -> BackendUnavailable:
        return BackendUnavailable(f"{self.options.name} cannot be reached by SSH: {why}")

    def _with_connection(self, job: Callable[[Connection], T]) -> T:
        """Do job on a connection that has a session left; a broken one is replaced once. Blocks."""
        tried: list[Connection] = []
        broken: OSError | None = None
        while True:
            connection, is_new = self._another(tried)
            tried.append(connection)
            try:
                return job(connection)
            except SessionRefused as error:
                if is_new:
                    raise BackendUnavailable(
                        f"the SSH server of {self.options.name} lets nobody have a session: {error}"
                    ) from error
            except ConnectionError as error:
                if is_new or broken is not None:
                    raise
                broken = error

    def _another(self, tried: list[Connection]) -> tuple[Connection, bool]:
        """Return a connection that was not tried yet, and whether it is new."""
        with self._opening:
            self._connections = [one for one in self._connections if one.lives]
            for connection in self._connections:
                if connection not in tried:
                    return connection, False
            if len(self._connections) >= _MAX_CONNECTIONS:
                raise BackendUnavailable(
                    f"all {_MAX_CONNECTIONS} connections to {self.options.name} are full: raise "
                    "MaxSessions of its SSH server, or lower executor.max_sandboxes"
                )
            connection = Connection.open(self.options)
            self._connections.append(connection)
            return connection, True


def _undo(late: "Future[T]", undo: Callable[[T], object]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        if not late.cancelled() and late.exception() is None:
            undo(late.result())
