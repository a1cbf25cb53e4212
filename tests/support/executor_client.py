"""A client of the executor that does what agents do."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.duration_pb2 import Duration

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.file_pb2_grpc import FileServiceStub
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.rpc.streams import open_stream

if TYPE_CHECKING:
    import grpc.aio

    Call = grpc.aio.StreamStreamCall[exec_pb2.AttachExecRequest, exec_pb2.AttachExecResponse]

Open = exec_pb2.AttachExecRequest.Open


@dataclass(slots=True)
class Seen:
    """What a client saw of a command."""

    opened: exec_pb2.Exec = field(default_factory=exec_pb2.Exec)
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    dropped: list[int] = field(default_factory=list[int])
    """Offsets before which output was skipped."""
    stdin_offsets: list[int] = field(default_factory=list[int])
    heartbeats: int = 0
    exit: exec_pb2.Exit | None = None

    def add(self, message: exec_pb2.AttachExecResponse) -> None:
        """Take one message."""
        assert self.exit is None, "a message after the exit"
        match message.WhichOneof("kind"):
            case "opened":
                self.opened = message.opened
            case "output":
                self._output(message.output)
            case "stdin_ack_offset":
                self.stdin_offsets.append(message.stdin_ack_offset)
            case "heartbeat":
                self.heartbeats += 1
            case "exited":
                self.exit = message.exited
            case _:
                raise AssertionError(message)

    def _output(self, output: exec_pb2.AttachExecResponse.Output) -> None:
        assert len(output.data) <= 256 * 1024
        is_first = output.stream == exec_pb2.OUTPUT_STREAM_STDOUT
        (self.stdout if is_first else self.stderr).extend(output.data)
        if output.dropped_before_offset:
            assert output.dropped_before_offset == output.offset
            self.dropped.append(output.offset)

    @property
    def code(self) -> int:
        """The exit code of a command that exited by itself."""
        assert self.exit is not None
        assert self.exit.reason == exec_pb2.EXIT_REASON_EXITED, self.exit
        return self.exit.code


class Client:
    """What agents do with an executor."""

    def __init__(self, channel: "grpc.aio.Channel", profile: str) -> None:
        self.channel = channel
        self.sandboxes = SandboxServiceStub(channel)
        self.execs = ExecServiceStub(channel)
        self.files = FileServiceStub(channel)
        self.pools = PoolServiceStub(channel)
        self.profile = profile

    async def acquire(
        self, session_id: str = "", **fields: Any
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """A sandbox, of a new session unless one is named."""
        fields.setdefault("request_id", f"acq_{uuid.uuid4().hex}")
        request = sandbox_pb2.AcquireSandboxRequest(
            session_id=session_id or uuid.uuid4().hex, profile=self.profile, **fields
        )
        return await self.sandboxes.AcquireSandbox(request, timeout=60)

    async def release(self, lease: sandbox_pb2.Lease, **more: bool) -> None:
        """Ends a sandbox."""
        request = sandbox_pb2.ReleaseSandboxRequest(lease=lease, profile=self.profile, **more)
        await self.sandboxes.ReleaseSandbox(request)

    async def start(self, lease: sandbox_pb2.Lease, *argv: str, **fields: Any) -> exec_pb2.Exec:
        """Starts a command."""
        return (await self.execs.StartExec(self.started(lease, *argv, **fields))).exec

    def started(
        self, lease: sandbox_pb2.Lease, *argv: str, **fields: Any
    ) -> exec_pb2.StartExecRequest:
        """What starts a command."""
        fields.setdefault("exec_id", f"exc_{uuid.uuid4().hex}")
        if argv:
            fields["argv"] = exec_pb2.Argv(arguments=argv)
        return exec_pb2.StartExecRequest(lease=lease, profile=self.profile, **fields)

    @asynccontextmanager
    async def attach(
        self, lease: sandbox_pb2.Lease, exec_id: str, stdout: int = 0, stderr: int = 0
    ) -> AsyncGenerator["Call"]:
        """A stream of a command that has been opened."""
        opening = Open(
            lease=lease,
            profile=self.profile,
            exec_id=exec_id,
            stdout_offset=stdout,
            stderr_offset=stderr,
        )
        async with self._stream(exec_pb2.AttachExecRequest(open=opening)) as call:
            yield call

    @asynccontextmanager
    async def _stream(self, first: exec_pb2.AttachExecRequest) -> AsyncGenerator["Call"]:
        # Without an iterator of requests, which the stubs ask for, the call is written to.
        make = cast("Callable[[], Call]", self.execs.AttachExec)
        async with open_stream(make()) as call:
            await call.write(first)
            yield call

    async def follow(
        self, lease: sandbox_pb2.Lease, exec_id: str, stdout: int = 0, stderr: int = 0
    ) -> Seen:
        """Everything of a command from some offsets on."""
        async with self.attach(lease, exec_id, stdout, stderr) as call:
            return await _read(call)

    async def run_at_once(self, lease: sandbox_pb2.Lease, *argv: str, **fields: Any) -> Seen:
        """Starts a command by the stream that it is followed over."""
        request = self.started(lease, *argv, **fields)
        async with self._stream(exec_pb2.AttachExecRequest(start=request)) as call:
            return await _read(call)

    async def run(self, lease: sandbox_pb2.Lease, *argv: str, **fields: Any) -> Seen:
        """Starts a command and follows it to its end."""
        started = await self.start(lease, *argv, **fields)
        return await self.follow(lease, started.exec_id)

    async def output(self, lease: sandbox_pb2.Lease, script: str) -> str:
        """What a script that succeeds says."""
        seen = await self.run(lease, script=script)
        assert seen.code == 0, seen
        return seen.stdout.decode().strip()

    async def get(self, lease: sandbox_pb2.Lease, exec_id: str) -> exec_pb2.Exec:
        """A command as it is."""
        request = exec_pb2.ReadExecOutputRequest(
            lease=lease,
            profile=self.profile,
            exec_id=exec_id,
            stream=exec_pb2.OUTPUT_STREAM_STDOUT,
            length_bytes=1,
        )
        return (await self.execs.ReadExecOutput(request)).exec

    async def wait(
        self, lease: sandbox_pb2.Lease, exec_id: str, seconds: int = 30
    ) -> exec_pb2.Exec:
        """A command once it has ended."""
        request = exec_pb2.WaitExecRequest(
            lease=lease, profile=self.profile, exec_id=exec_id, wait=Duration(seconds=seconds)
        )
        return (await self.execs.WaitExec(request, timeout=seconds + 5)).exec

    async def signal(
        self, lease: sandbox_pb2.Lease, exec_id: str, number: int = 0
    ) -> exec_pb2.Exec:
        """A command after a signal; 0 ends all of it."""
        request = exec_pb2.SignalExecRequest(
            lease=lease, profile=self.profile, exec_id=exec_id, number=number
        )
        return (await self.execs.SignalExec(request)).exec

    async def list(self, lease: sandbox_pb2.Lease) -> list[exec_pb2.Exec]:
        """All commands of a sandbox."""
        request = exec_pb2.ListExecsRequest(lease=lease, profile=self.profile)
        return list((await self.execs.ListExecs(request)).execs)

    async def read(
        self, lease: sandbox_pb2.Lease, exec_id: str, offset: int, length: int, stream: int = 1
    ) -> exec_pb2.ReadExecOutputResponse:
        """Stored output of a command."""
        request = exec_pb2.ReadExecOutputRequest(
            lease=lease,
            profile=self.profile,
            exec_id=exec_id,
            stream=cast("Any", stream),
            offset=offset,
            length_bytes=length,
        )
        return await self.execs.ReadExecOutput(request)


async def _read(call: "Call") -> Seen:
    seen = Seen()
    async for message in call:
        seen.add(message)
        if message.HasField("exited"):
            await call.done_writing()
    return seen
