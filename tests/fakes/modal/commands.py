"""A command that runs in a machine, with its output kept so that it can be read from any offset."""

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Self

_PIECE_BYTES = 64 * 1024


class Output:
    """One output stream, all of it, in a file without a name."""

    def __init__(self) -> None:
        self._fd, path = tempfile.mkstemp()
        Path(path).unlink()
        self._size = 0
        self._ended = False
        self._moved = asyncio.Event()

    async def fill(self, source: asyncio.StreamReader) -> None:
        """Take all that comes until it ends."""
        while data := await source.read(_PIECE_BYTES):
            os.pwrite(self._fd, data, self._size)
            self._size += len(data)
            self._tell()
        self._ended = True
        self._tell()

    async def read(self, offset: int) -> AsyncGenerator[bytes]:
        """Everything from offset on, as it comes, until the end."""
        while True:
            moved = self._moved
            while data := os.pread(self._fd, _PIECE_BYTES, offset):
                offset += len(data)
                yield data
            if self._ended and offset >= self._size:
                return
            await moved.wait()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def close(self) -> None:
        """Forget it."""
        os.close(self._fd)


class Command:
    """A running process with its streams."""

    def __init__(self, process: Process) -> None:
        self.outputs = {1: Output(), 2: Output()}
        self._process = process
        self._stdin_bytes = 0
        self._writing = asyncio.Lock()
        assert process.stdout is not None
        assert process.stderr is not None
        self._jobs = asyncio.gather(
            self.outputs[1].fill(process.stdout), self.outputs[2].fill(process.stderr)
        )

    @classmethod
    async def start(cls, argv: list[str], pass_fds: tuple[int, ...] = ()) -> Self:
        """Start a program with three pipes."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                *argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        )

    @property
    def status(self) -> int | None:
        """How it ended; negative for a signal, None while it runs."""
        return self._process.returncode

    async def write(self, offset: int, data: bytes, eof: bool) -> None:
        """Input from offset on; what was written before is not written twice."""
        async with self._writing:
            assert self._process.stdin is not None
            assert offset <= self._stdin_bytes, "a gap in the input"
            data = data[self._stdin_bytes - offset :]
            self._stdin_bytes += len(data)
            self._process.stdin.write(data)
            if eof:
                self._process.stdin.close()
            else:
                await self._process.stdin.drain()

    async def wait(self) -> int:
        """Wait for its end."""
        return await self._process.wait()

    def kill(self) -> None:
        """End it, with what stands between it and us."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it and forget what it said."""
        self.kill()
        await self._process.wait()
        await self._jobs
        for output in self.outputs.values():
            output.close()
