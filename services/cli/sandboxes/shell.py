"""An interactive program in a sandbox, over a terminal or pipes."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, nullcontext, suppress
from typing import Any

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from services.cli.connection import until_told
from services.cli.console import EXIT_FAILURE, complain
from services.cli.output import enum_word
from services.cli.sandboxes.exec_stream import ExecStream
from services.cli.standard_input import typed
from services.errors import ServiceUnavailable
from services.ids import new_id
from services.lifecycle import Shutdown, Workers, ungrouped

LONGEST_RUN_S = 24 * 3600
KILL_DEADLINE_S = 15.0
SHOWN_AGAIN_BYTES = 4096
"""How much recent output a rejoined program shows."""
_SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"
DETACH_KEY = b"\x1d"
"""Ctrl-]; pressed twice it detaches, once before another key it is sent."""


class SandboxAddress(Struct, frozen=True):
    """A sandbox, and the operator's channel to its executor."""

    channel: grpc.aio.Channel
    sandbox: sandbox_pb2.Sandbox

    @property
    def sandbox_id(self) -> str:
        return self.sandbox.sandbox_id

    @property
    def named(self) -> dict[str, Any]:
        """The fields that name it in requests; an operator's lease proves nothing."""
        lease = sandbox_pb2.Lease(sandbox_id=self.sandbox_id)
        return {"lease": lease, "profile": self.sandbox.profile}


class Shell(Struct):
    """One session at a program in a sandbox."""

    place: SandboxAddress
    term: str
    """The terminal's type; empty for pipes."""
    _held: bytes = b""
    """A detach key that waits for the second press."""
    _exit: exec_pb2.Exit | None = None
    _detached: bool = False
    _cut: str = ""
    """Why the connection was lost; empty if it was not."""

    async def run(self, command: Sequence[str]) -> int:
        """Run a command, by default a shell, until its end or a detach; return its exit status."""
        request = exec_pb2.StartExecRequest(
            **self.place.named,
            exec_id=new_id("exc"),
            run_timeout=Duration(seconds=LONGEST_RUN_S),
            stdin=True,
        )
        if command:
            request.argv.arguments.extend(command)
        else:
            request.script = _SHELL
        if self.term:
            request.terminal.CopyFrom(_size())
            request.env["TERM"] = self.term
        try:
            return await self._follow(exec_pb2.AttachExecRequest(start=request))
        finally:
            if self._exit is None and not (self._detached or self._cut):
                await self._kill(request.exec_id)

    async def rejoin(self, exec_id: str) -> int:
        """Follow a running command, which outlives this session; return its exit status."""
        newest = await ExecServiceStub(self.place.channel).ReadExecOutput(
            exec_pb2.ReadExecOutputRequest(
                **self.place.named,
                exec_id=exec_id,
                stream=exec_pb2.OUTPUT_STREAM_STDOUT,
                offset=-SHOWN_AGAIN_BYTES,
                length_bytes=1,
            )
        )
        opening = exec_pb2.AttachExecRequest.Open(
            **self.place.named, exec_id=exec_id, stdout_offset=newest.offset
        )
        return await self._follow(exec_pb2.AttachExecRequest(open=opening))

    async def _follow(self, opening: exec_pb2.AttachExecRequest) -> int:
        place = self.place
        stream = ExecStream(place.channel, opening)
        async with Shutdown() as shutdown, Workers() as workers, until_told(shutdown, workers):
            await self._drive(stream)
        if self._exit is None:
            sys.stderr.write("\n")  # the shell's prompt stands in the line
            if self._cut:
                complain(self._cut)
            complain(
                f"left running; reopen it with: hermes sandboxes open {place.sandbox_id} "
                f"--exec {stream.exec_id}"
            )
            return EXIT_FAILURE if self._cut else 0
        return _status(self._exit)

    async def _drive(self, stream: ExecStream) -> None:
        def resize() -> None:
            stream.resize(_size())

        with _raw_mode(resize) if self.term else nullcontext(), ungrouped():
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self._show(stream))
                feeding = group.create_task(self._feed(stream))
                await asyncio.wait({feeding, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not self._detached:
                    await reading
                reading.cancel()
                feeding.cancel()

    async def _feed(self, stream: ExecStream) -> None:
        async with aclosing(typed()) as pieces:
            async for piece in pieces:
                await stream.write(self._passed(piece) if self.term else piece)
                if self._detached:
                    return
        await stream.end_input()

    def _passed(self, keys: bytes) -> bytes:
        passed, twice, _ = (self._held + keys).partition(DETACH_KEY * 2)
        self._detached = bool(twice)
        self._held = DETACH_KEY if not twice and passed.endswith(DETACH_KEY) else b""
        return passed.removesuffix(self._held)

    async def _show(self, stream: ExecStream) -> None:
        try:
            async with aclosing(stream.happenings()) as happenings:
                async for happened in happenings:
                    if isinstance(happened, exec_pb2.Exit):
                        self._exit = happened
                        return
                    is_error = happened.stream == exec_pb2.OUTPUT_STREAM_STDERR
                    out = sys.stderr.buffer if is_error else sys.stdout.buffer
                    out.write(happened.data)
                    out.flush()
        except ServiceUnavailable as error:
            self._cut = error.message

    async def _kill(self, exec_id: str) -> None:
        request = exec_pb2.SignalExecRequest(**self.place.named, exec_id=exec_id)
        with suppress(grpc.aio.AioRpcError):  # it never started, or its executor is gone
            stub = ExecServiceStub(self.place.channel)
            await stub.SignalExec(request, timeout=KILL_DEADLINE_S)


def _size() -> exec_pb2.TerminalSize:
    size = os.get_terminal_size(sys.stdin.fileno())
    rows, columns = (min(max(number, 1), 1000) for number in (size.lines, size.columns))
    return exec_pb2.TerminalSize(row_count=rows, column_count=columns)


@contextmanager
def _raw_mode(on_resize: Callable[[], None]) -> Generator[None]:
    """Send every key to the program, even Ctrl-C; restores the terminal afterwards."""
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        loop.add_signal_handler(signal.SIGWINCH, on_resize)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        with suppress(termios.error):  # the terminal may have been closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _status(ended: exec_pb2.Exit) -> int:
    if ended.reason not in (exec_pb2.EXIT_REASON_EXITED, exec_pb2.EXIT_REASON_SIGNALED):
        complain(f"the command was ended: {enum_word(exec_pb2.ExitReason, ended.reason)}")
    if ended.HasField("code"):
        return ended.code
    return 128 + ended.signal if ended.signal else EXIT_FAILURE
