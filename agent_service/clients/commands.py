"""Commands of a session's sandbox, through the executor's ExecService."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from agent_service.clients.leases import HeldSandbox, Leased, is_gone
from agent_service.clients.patience import Patience
from agent_service.records.sandbox import (
    Command,
    CommandStatus,
    CommandUncertain,
    CommandUnknown,
    Exit,
    OnOutput,
    OutputPage,
    PathRefused,
    SandboxUnavailable,
    Stream,
)
from hermes.executor.v1 import exec_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from services.errors import Reason, message_of, reason_of
from services.rpc.messages import record_of
from services.rpc.streams import Requests, open_stream
from services.rpc.streams import Stream as AnswerStream

WAIT_GRACE_S = 10.0
"""How much longer than the requested wait an executor may take to answer."""
KILL_DEADLINE_S = 45.0
KILL_PATIENCE_S = 5.0
"""How long an interruption waits for an unreachable executor."""

_STREAMS = {
    exec_pb2.OUTPUT_STREAM_STDOUT: Stream.STDOUT,
    exec_pb2.OUTPUT_STREAM_STDERR: Stream.STDERR,
}
_WIRE_STREAMS = {stream: number for number, stream in _STREAMS.items()}

CHUNK_BYTES = 32 * 1024

Answers = AnswerStream[exec_pb2.AttachExecResponse]
_Request = exec_pb2.AttachExecRequest
Sent = Requests[_Request]
Attached = tuple[Answers, Sent]

Output = exec_pb2.AttachExecResponse.Output

_T = TypeVar("_T")


class Holding(Protocol):
    """Claims a session's sandbox."""

    resumed: bool
    """An earlier owner may have started the command."""

    async def hold(
        self, *, resumed: bool | None = None, keyed: bool = True, stays: bool = False
    ) -> HeldSandbox: ...

    async def exists(self) -> bool: ...

    async def forget_if_gone(self, held: HeldSandbox, error: grpc.aio.AioRpcError) -> bool:
        """Forget the sandbox if an error says it is gone; return whether to claim another."""
        ...


class OneSandbox:
    """A claimed sandbox, whose users never claim another."""

    resumed = False

    def __init__(self, held: HeldSandbox) -> None:
        self._held = held

    async def hold(
        self, *, resumed: bool | None = None, keyed: bool = True, stays: bool = False
    ) -> HeldSandbox:
        return self._held

    async def exists(self) -> bool:
        return True

    async def forget_if_gone(self, held: HeldSandbox, error: grpc.aio.AioRpcError) -> bool:
        return False


class _Progress(Struct):
    may_run: bool
    """It may have been started: perhaps only the answer was lost."""
    has_started: bool = False
    attached: bool = False
    """The executor has answered on the current stream."""
    stdout: int = 0
    stderr: int = 0

    def advance(self, output: Output) -> None:
        end = output.offset + len(output.data)
        if output.stream == exec_pb2.OUTPUT_STREAM_STDOUT:
            self.stdout = end
        else:
            self.stderr = end


class SessionCommands:
    """The commands of one turn's session."""

    def __init__(self, sandbox: Holding, *, interrupted: bool = False) -> None:
        """If `interrupted`, a kill does not wait long for an unreachable executor."""
        self._sandbox = sandbox
        self._interrupted = interrupted

    async def run(self, command: Command, on_output: OnOutput) -> CommandStatus:
        return await self._begin(command, on_output)

    async def start(self, command: Command) -> CommandStatus:
        return await self._begin(command, None)

    async def kill(self, key: str) -> CommandStatus:
        request = exec_pb2.SignalExecRequest(exec_id=key)
        # If unreachable it may be running still: report that, and keep the sandbox.
        found = await self._ask(
            key, request, lambda stub: stub.SignalExec(request, timeout=KILL_DEADLINE_S), stays=True
        )
        return status(found.exec)

    async def wait(self, key: str, most_s: float) -> CommandStatus:
        """Return a command's status once it has ended, or after `most_s`."""
        request = exec_pb2.WaitExecRequest(exec_id=key, wait=_duration(most_s))
        timeout_s = most_s + WAIT_GRACE_S
        found = await self._ask(
            key, request, lambda stub: stub.WaitExec(request, timeout=timeout_s)
        )
        return status(found.exec)

    async def list(self) -> list[CommandStatus]:
        request = exec_pb2.ListExecsRequest()
        try:
            found = await self._ask("", request, lambda stub: stub.ListExecs(request))
        except CommandUnknown:
            return []
        return [status(each) for each in found.execs]

    async def read(self, key: str, stream: Stream, offset: int, length: int) -> OutputPage:
        request = exec_pb2.ReadExecOutputRequest(
            exec_id=key, stream=_WIRE_STREAMS[stream], offset=offset, length_bytes=length
        )
        found = await self._ask(key, request, lambda stub: stub.ReadExecOutput(request))
        return OutputPage(found.data, found.offset, found.total_bytes, status(found.exec))

    async def write(self, key: str, data: bytes, eof: bool, at: int | None = None) -> None:
        async def feed(held: HeldSandbox) -> None:
            async with attached(held, open_request(held, key)) as opened:
                await _feed(*opened, data, at, eof=eof)

        await self._held(key, feed)

    async def _begin(self, command: Command, on_output: OnOutput | None) -> CommandStatus:
        held = await self._sandbox.hold()
        progress, is_second = _Progress(self._sandbox.resumed), False
        patience = Patience(held.patience_s)
        while True:
            try:
                return await self._follow(held, command, progress, on_output)
            except grpc.aio.AioRpcError as error:
                if is_gone(error) and not progress.may_run and not is_second:
                    await self._sandbox.forget_if_gone(held, error)
                    # A command that a resumed call may have started is lost too; `hold` raises
                    # that.
                    held, is_second = await self._sandbox.hold(), True
                    continue
                if progress.may_run and reason_of(error) is Reason.ALREADY_EXISTS:
                    # It was started with other arguments: before an upgrade or a change of
                    # settings.
                    progress.has_started = True
                    continue
                if progress.attached:
                    progress.attached = False
                    patience.renew()
                if not await patience.wait(error):
                    await self._sandbox.forget_if_gone(held, error)
                    raise _why_not(error, progress.may_run) from error
                # With this reason the executor has not begun.
                progress.may_run |= reason_of(error) is not Reason.BACKEND_UNAVAILABLE

    def _start_request(self, held: HeldSandbox, command: Command) -> exec_pb2.StartExecRequest:
        request = exec_pb2.StartExecRequest(
            lease=held.lease,
            profile=held.profile,
            exec_id=command.key,
            argv=exec_pb2.Argv(arguments=command.argv),
            cwd=command.cwd,
            env=command.env,
            run_timeout=_duration(command.timeout_s),
            leave_children=command.background,
            stdin=command.background or command.stdin,
        )
        if command.terminal is not None:
            request.terminal.row_count, request.terminal.column_count = command.terminal
        return request

    async def _follow(
        self, held: HeldSandbox, command: Command, progress: _Progress, on_output: OnOutput | None
    ) -> CommandStatus:
        """Start the command unless it is known to run, and read its output.

        Returns its status once it has ended, or has started and nobody consumes its output.
        """
        if progress.has_started:
            first = open_request(held, command.key, progress.stdout, progress.stderr)
        else:
            first = _Request(start=self._start_request(held, command))
        async with attached(held, first) as (call, _):
            opened = exec_pb2.Exec()
            async for message in call:
                match message.WhichOneof("kind"):
                    case "opened":
                        opened = message.opened
                        progress.attached = progress.has_started = progress.may_run = True
                        if on_output is None:
                            return status(opened)
                    case "output" if on_output is not None:
                        progress.advance(message.output)
                        on_output(_STREAMS[message.output.stream], message.output.data)
                    case "exited":
                        opened.exit.CopyFrom(message.exited)
                        return status(opened)
                    case _:
                        pass
        raise CommandUncertain("The executor ended the stream without saying how it went.")

    async def _ask(
        self,
        key: str,
        request: Leased,
        call: Callable[[ExecServiceStub], Awaitable[_T]],
        *,
        stays: bool = False,
    ) -> _T:
        patience_s = KILL_PATIENCE_S if stays and self._interrupted else None

        async def asked(held: HeldSandbox) -> _T:
            return await held.ask(request, lambda: call(ExecServiceStub(held.channel)), patience_s)

        return await self._held(key, asked, stays=stays)

    async def _held(
        self, key: str, call: Callable[[HeldSandbox], Awaitable[_T]], *, stays: bool = False
    ) -> _T:
        """Make a call with the sandbox; retry once if another replica had it."""
        if not await self._sandbox.exists():
            raise CommandUnknown(key)
        is_second = False
        while True:
            held = await self._sandbox.hold(resumed=False, stays=stays)
            try:
                return await call(held)
            except grpc.aio.AioRpcError as error:
                is_unknown = reason_of(error) is Reason.NOT_FOUND
                if is_second or is_unknown or not await self._sandbox.forget_if_gone(held, error):
                    raise self._failure(key, error) from error
                is_second = True

    def _failure(self, key: str, error: grpc.aio.AioRpcError) -> Exception:
        if is_gone(error):
            return CommandUnknown(key)
        return SandboxUnavailable(message_of(error))


def status(found: exec_pb2.Exec) -> CommandStatus:
    """Return a command as tools see it."""
    return CommandStatus(
        key=found.exec_id,
        started_at_ms=found.start_time.ToMilliseconds(),
        exit=record_of(found.exit, Exit) if found.HasField("exit") else None,
    )


def open_request(held: HeldSandbox, key: str, stdout: int = 0, stderr: int = 0) -> _Request:
    """Return the request that opens a command's stream at offsets of its output."""
    return _Request(
        open=_Request.Open(
            lease=held.lease,
            profile=held.profile,
            exec_id=key,
            stdout_offset=stdout,
            stderr_offset=stderr,
        )
    )


def send_input(requests: Sent, data: bytes, offset: int) -> None:
    """Send a command's input from an offset of all its input."""
    for start in range(0, len(data), CHUNK_BYTES):
        chunk = data[start : start + CHUNK_BYTES]
        requests.send(_Request(stdin=_Request.Stdin(offset=offset + start, data=chunk)))


@asynccontextmanager
async def attached(held: HeldSandbox, first: _Request) -> AsyncGenerator[Attached]:
    """Open a stream of a command; yield it, and the queue of further requests."""
    requests = Requests([first])
    try:
        async with open_stream(ExecServiceStub(held.channel).AttachExec(requests)) as call:
            yield call, requests
    finally:
        requests.end()


async def _feed(call: Answers, requests: Sent, data: bytes, at: int | None, *, eof: bool) -> None:
    first = wanted = None
    async for message in call:
        match message.WhichOneof("kind"):
            case "stdin_ack_offset" if first is None:
                first = message.stdin_ack_offset
                if at is not None:
                    data = data[max(first - at, 0) :]
                wanted = first + len(data)
                send_input(requests, data, first)
                if eof:
                    requests.send(_Request(stdin_eof=_Request.StdinEof()))
                    # The executor closes the stream when the command's input is closed.
                    requests.send(_Request(detach=_Request.Detach()))
                elif not data:
                    return
            case "stdin_ack_offset" if message.stdin_ack_offset == wanted and not eof:
                return
            case "exited" if wanted is None or not eof:
                raise CommandUnknown("the command has ended")
            case _:
                pass


def _why_not(error: grpc.aio.AioRpcError, may_run: bool) -> Exception:
    if reason_of(error) is Reason.PATH_INVALID:
        # Its program or folder is at fault, so it never ran.
        return PathRefused(message_of(error))
    return (CommandUncertain if may_run else SandboxUnavailable)(message_of(error))


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
