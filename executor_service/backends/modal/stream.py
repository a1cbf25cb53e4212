"""The standard streams of one command in a sandbox of Modal, as a ByteStream.

Modal's SDK runs on an event loop of its own, in one thread for the whole process, and no thread of
ours waits. The next output is requested only when the last was read, so a slow reader slows the
command.
"""

import asyncio
import logging
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from executor_service.errors import LinkClosed
from services.lifecycle import Workers

if TYPE_CHECKING:
    from modal import Sandbox
    from modal.container_process import ContainerProcess

_T = TypeVar("_T")
_WRITE_BYTES = 256 * 1024
"""As much as the SDK itself puts into one message."""
_WRITE_DEADLINE_S = 30.0
_END_DEADLINE_S = 3.0
_COMPLAINT_BYTES = 1024
log = logging.getLogger(__name__)
Failures = tuple[type[Exception], ...]
"""What the SDK may raise."""


class Calls:
    """Calls in progress."""

    def __init__(self) -> None:
        self._begun: set[asyncio.Future[Any]] = set()

    async def wait_for(self, call: Awaitable[_T]) -> _T:
        """Return a call's result; a cancelled caller leaves at once."""
        task = asyncio.ensure_future(call)
        self._begun.add(task)
        task.add_done_callback(self._on_end)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        return await task

    def _on_end(self, task: asyncio.Future[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled():
            # The caller has seen the exception, or has left.
            task.exception()


class ModalStream:
    """Reads standard output and writes standard input."""

    def __init__(
        self,
        sandbox: "Sandbox",
        process: "ContainerProcess[bytes]",
        failures: Failures,
        calls: Calls,
        workers: Workers,
    ) -> None:
        self._sandbox = sandbox
        self._process = process
        self._failures = failures
        self._calls = calls
        self._workers = workers
        # One place for a waiting chunk, one for the end.
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(2)
        self._chunk = memoryview(b"")
        self._over = False
        self._gone = asyncio.get_running_loop().create_future()
        """Done when nothing is read or written any more."""
        self._closed = False
        # Concurrent drains make the SDK send unacknowledged bytes twice.
        self._draining = asyncio.Lock()
        name = sandbox.object_id
        self._taking = workers.start(f"output of {name}", self._take_output())
        self._watching = workers.start(f"watch over {name}", self._watch_sandbox())

    async def read(self, n: int) -> bytes:
        if not self._chunk and not self._over:
            self._chunk = memoryview(await self._chunks.get())
            self._over = self._over or not self._chunk
        data, self._chunk = bytes(self._chunk[:n]), self._chunk[n:]
        return data

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            if self._over:
                raise LinkClosed("the stream is closed")
            sending = asyncio.ensure_future(self._calls.wait_for(self._send(rest[:_WRITE_BYTES])))
            try:
                async with asyncio.timeout(_WRITE_DEADLINE_S):
                    await asyncio.wait({sending, self._gone}, return_when=FIRST_COMPLETED)
                    if not sending.done():
                        raise LinkClosed("the stream was closed")
                    await sending
            except self._failures as error:
                self._cut()
                raise LinkClosed(f"Modal takes no input for the box: {error}") from error
            finally:
                sending.cancel()
            rest = rest[_WRITE_BYTES:]

    async def _send(self, data: memoryview) -> None:
        async with self._draining:
            self._process.stdin.write(data)
            await self._process.stdin.drain.aio()

    async def complaint(self) -> str:
        """The command's standard error, once it has ended."""
        with suppress(*self._failures):
            async with asyncio.timeout(_END_DEADLINE_S):
                said = await self._process.stderr.read.aio()
                return said[-_COMPLAINT_BYTES:].decode(errors="replace").strip()
        return ""

    async def close(self) -> None:
        self._cut()
        if self._closed:
            return
        self._closed = True
        self._workers.start(f"end of {self._sandbox.object_id}", self._finish())

    async def _finish(self) -> None:
        """Let the command and the reading of its output end by themselves, else make them.

        The SDK handles cancelled reads badly, and waits too long for a sandbox that is gone.
        """
        with suppress(*self._failures):
            async with asyncio.timeout(_END_DEADLINE_S), self._draining:
                self._process.stdin.write_eof()
                await self._process.stdin.drain.aio()
        await asyncio.wait([self._taking], timeout=_END_DEADLINE_S)
        with suppress(*self._failures):
            async with asyncio.timeout(_END_DEADLINE_S):
                await self._sandbox.detach.aio()
        await asyncio.wait([self._taking], timeout=_END_DEADLINE_S)
        jobs = {self._taking, self._watching}
        while jobs:
            for job in jobs:
                job.cancel()
            # Again, because the SDK loses a cancellation that arrives with the answer.
            _, jobs = await asyncio.wait(jobs, timeout=_END_DEADLINE_S)

    async def _take_output(self) -> None:
        try:
            async for chunk in self._process.stdout:
                if not self._over:
                    await self._chunks.put(chunk)
        except self._failures as error:
            log.info("the output of a box broke off: %s", error)
        if not self._over:
            await self._chunks.put(b"")

    async def _watch_sandbox(self) -> None:
        """End the stream as soon as the sandbox has ended; its output alone may end much later."""
        from modal.exception import SandboxTimeoutError

        try:
            await self._sandbox.wait.aio(raise_on_termination=False)
        except SandboxTimeoutError:
            pass
        except self._failures as error:
            log.info("a sandbox cannot be watched: %s", error)
            return
        self._cut()

    def _cut(self) -> None:
        self._over = True
        if not self._gone.done():
            self._gone.set_result(None)
        self._chunk = memoryview(b"")
        while not self._chunks.empty():
            self._chunks.get_nowait()
        self._chunks.put_nowait(b"")
