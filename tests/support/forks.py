"""Programs of ours that start soon: forked by a process that has imported all they need.

They are processes of their own like any other, but for the seconds of importing that each would
begin with. `python -m tests.support.forks FD` is what forks: once for each message on the socket,
which names the program and carries where its output goes.
"""

import asyncio
import atexit
import faulthandler
import fcntl
import gc
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

from msgspec import Struct, json

_LARGEST = 1 << 17
_EARLY = (
    "tests.support.executors",
    "tests.integration.agent_processes",
    # What they import when they first need it.
    "alembic.migration",
    "alembic.operations",
    "alembic.runtime.migration",
    "alembic.script",
    "anyio._backends._asyncio",
    "certifi",
    "cryptography.hazmat.backends.openssl",
    "cryptography.x509",
    "dotenv",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.idna",
    "h2.connection",
    "httpcore",
    "httpcore2",
    "importlib.readers",
    "openai",
    "psycopg",
    "ruamel.yaml",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.ext.asyncio",
)


class Program(Struct, frozen=True):
    """A module whose `main` is called, and what it finds."""

    module: str
    arguments: tuple[str, ...] = ()
    said: str = ""
    """What standard input holds, as far as it has no other."""
    early: tuple[str, ...] = ()
    """What is imported before the first of its kind is forked, for all that come later."""


class Request(Struct, frozen=True):
    """What is asked of the process that forks."""

    program: Program
    environ: Mapping[str, str]
    folder: str
    leads_session: bool = False
    """Whether it leads a session of its own, with the terminal that is its standard input."""


class Forked:
    """A process that was forked, to be waited for before the loop ends."""

    def __init__(self, output: "_Pipe", status: "_Pipe", pid: int) -> None:
        self.stdout = output.reader
        self.pid = pid
        self.returncode: int | None = None
        self._ended = asyncio.create_task(self._end(output, status))

    @classmethod
    async def start(cls, program: Program, stderr: Path | None = None) -> Self:
        """Have it forked; its errors go where ours do, or are appended to a file."""
        reading, writing = os.pipe()
        telling, told = os.pipe()
        await asyncio.to_thread(_ask, program, stderr, (writing, told))
        output, status = await _Pipe.open(reading), await _Pipe.open(telling)
        return cls(output, status, int(await status.reader.readline()))

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; ProcessLookupError once it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    async def wait(self) -> int:
        """Its exit status, or the negative number of the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def _end(self, output: "_Pipe", status: "_Pipe") -> int:
        self.returncode = int(await status.reader.readline())
        output.close()
        status.close()
        return self.returncode


class _Pipe(Struct, frozen=True):
    """The end of a pipe that is read from."""

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def open(cls, fd: int) -> Self:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
        )
        return cls(reader, transport)

    def close(self) -> None:
        self.transport.close()


_starting = threading.Lock()


def ask(request: Request, fds: tuple[int, int, int, int]) -> None:
    """Have a program forked, with these as its standard input, output and errors; on the last one
    come its process id and then how it ended, a line each.
    """
    with _starting:
        channel = _forking()
    socket.send_fds(channel, [json.encode(request)], fds)


def _ask(program: Program, stderr: Path | None, pipes: tuple[int, int]) -> None:
    """Send what is to be forked, with its own ends of the pipes, which are closed here."""
    reading, writing = os.pipe()
    os.write(writing, program.said.encode())
    errors = os.dup(2)
    if stderr is not None:
        os.close(errors)
        errors = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    written, told = pipes
    fds = (reading, written, errors, told)
    ask(Request(program, dict(os.environ), str(Path.cwd())), fds)
    for fd in (*fds, writing):
        os.close(fd)


@cache
def _forking() -> socket.socket:
    """The socket to the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.support.forks", f"{theirs.fileno()}"]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class _Forking:
    """What forks, without threads and without an event loop."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        """Fork whenever asked; return when nobody can ask any more, or as what was forked."""
        while True:
            for key, _ in self._selector.select():
                if key.fd != self._channel.fileno():
                    self._tell_end(key.fd)
                    continue
                message, fds, _, _ = socket.recv_fds(self._channel, _LARGEST, 4)
                if not message:
                    self._kill_all()
                    return
                request = json.decode(message, type=Request)
                for name in request.program.early:
                    importlib.import_module(name)
                if self._fork(fds) == 0:
                    self._selector.close()
                    self._channel.detach()
                    _become(request, fds)
                    return

    def _fork(self, fds: list[int]) -> int:
        gc.freeze()
        pid = os.fork()
        if pid:
            *given, told = fds
            for fd in given:
                os.close(fd)
            watched = os.pidfd_open(pid)
            self._running[watched] = pid, told
            self._selector.register(watched, selectors.EVENT_READ)
            _tell(told, pid)
        return pid

    def _tell_end(self, watched: int) -> None:
        self._selector.unregister(watched)
        pid, told = self._running.pop(watched)
        _, status = os.waitpid(pid, 0)
        _tell(told, os.waitstatus_to_exitcode(status))
        os.close(watched)
        os.close(told)

    def _kill_all(self) -> None:
        for pid, _ in self._running.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _tell(fd: int, number: int) -> None:
    with suppress(BrokenPipeError):
        os.write(fd, b"%d\n" % number)


def _become(request: Request, fds: list[int]) -> None:
    """Be the program, with nothing of who forked it but what was imported."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if request.leads_session:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    time.tzset()
    sys.argv = [request.program.module, *request.program.arguments]
    # What was opened as a file that can be sought cannot be reconfigured as a terminal.
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    importlib.import_module(request.program.module).main()


def _main() -> None:
    faulthandler.enable()  # for all that are forked: one that ends by a signal says where it was
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all who may end us
    for name in _EARLY:
        importlib.import_module(name)
    _Forking(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    _main()
