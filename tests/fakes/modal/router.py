"""Modal's workers: commands in sandboxes, their input and their output."""

from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Stream
from modal_proto import task_command_router_pb2 as pb

from tests.fakes.modal.cloud import Cloud
from tests.fakes.modal.commands import Command
from tests.fakes.modal.machine import TERMINATED, Machine


class Router:
    """The calls that the SDK makes for commands.

    Where a sandbox was ended, its worker may be gone too: calls for commands are answered as by a
    machine that is not there, which the SDK tries again and again. Of one that has ended by itself
    its worker says so.
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.cut = 0
        """Counts how often all streams of output were told to break off."""

    async def SandboxStdioReadV2(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        machine = self._machine(stream, request.task_id)
        assert machine.entrypoint is not None
        stdout = pb.SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
        output = machine.entrypoint.outputs[1 if request.file_descriptor == stdout else 2]
        offset = request.offset
        async for data in output.read(offset):
            answer = pb.SandboxStdioReadV2Response(data=data, starting_offset=offset)
            await stream.send_message(answer)
            offset += len(data)

    async def TaskExecStart(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        machine = self._machine(stream, request.task_id)
        _must_live(machine)
        await machine.run(request.exec_id, list(request.command_args))
        await stream.send_message(pb.TaskExecStartResponse())

    async def TaskExecStdioRead(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        machine, command = self._command(stream, request)
        stdout = pb.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        output = command.outputs[1 if request.file_descriptor == stdout else 2]
        cut = self.cut
        async for data in output.read(request.offset):
            await stream.send_message(pb.TaskExecStdioReadResponse(data=data))
            if self.cut > cut:
                raise GRPCError(Status.UNAVAILABLE, "the connection broke")
        _must_live(machine)

    async def TaskExecWait(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        machine, command = self._command(stream, request)
        status = await command.wait()
        _must_live(machine)
        how = {"signal": -status} if status < 0 else {"code": status}
        await stream.send_message(pb.TaskExecWaitResponse(**how))

    async def TaskExecStdinWrite(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        _, command = self._command(stream, request)
        await command.write(request.offset, request.data, request.eof)
        await stream.send_message(pb.TaskExecStdinWriteResponse())

    def _machine(self, stream: Stream[Any, Any], task_id: str) -> Machine:
        assert stream.metadata is not None
        for one in self._cloud.sandboxes.values():
            if one.machine.task_id == task_id:
                if stream.metadata.get("authorization") != f"Bearer {one.jwt}":
                    raise GRPCError(Status.UNAUTHENTICATED, "not a token for this task")
                return one.machine
        raise GRPCError(Status.NOT_FOUND, f"task {task_id} not found")

    def _command(self, stream: Stream[Any, Any], request: Any) -> tuple[Machine, Command]:
        machine = self._machine(stream, request.task_id)
        _must_live(machine)
        command = machine.commands.get(request.exec_id)
        if command is None:
            raise GRPCError(Status.NOT_FOUND, f"exec {request.exec_id} not found")
        return machine, command


def _must_live(machine: Machine) -> None:
    if machine.result is not None:
        is_away = machine.result.status == TERMINATED
        status = Status.UNAVAILABLE if is_away else Status.NOT_FOUND
        raise GRPCError(status, f"task {machine.task_id} is not running")
