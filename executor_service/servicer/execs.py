"""ExecService."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import grpc.aio

from executor_service.errors import PathInvalid, StartRefused
from executor_service.execs.command import Command
from executor_service.execs.segments import STREAMS
from executor_service.link.messages import StartCommand
from executor_service.records.sandboxes import Claim, CommandRecord
from executor_service.sandboxes.leases import Leases
from executor_service.sandboxes.sandbox import Sandbox
from executor_service.servicer.attachments import Attachment, exit_to_wire, terminal
from executor_service.servicer.fields import in_range, proof, seconds, text, timestamp
from hermes.executor.v1 import exec_pb2, exec_pb2_grpc
from services.errors import AlreadyExists, HermesError, InvalidArgument, LimitExceeded, Unavailable
from services.lifecycle import Workers
from services.rpc.deadlines import DEFAULT_UNARY_S
from services.rpc.messages import message_of
from services.rpc.streams import write
from services.validation import check_id

_log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]
_DEFAULT_WAIT_S = 60.0
_LONGEST_WAIT_S = 600.0
_DEFAULT_LENGTH_BYTES = 64 * 1024
_MOST_LENGTH_BYTES = 1024 * 1024
_HIGHEST_SIGNAL = 31
_FAREWELL_S = 5.0
"""How long a stream stays open for a client that has been sent everything."""
_DEFAULT_RUN_S = 180.0
_LONGEST_RUN_S = 24 * 3600.0
_MOST_CHARACTERS = 512 * 1024
"""Of a command and its variables; the kernel takes no argument of more than 128 KiB."""
_PATHS = frozenset({"NOT_FOUND", "PERMISSION_DENIED", "NOT_EXECUTABLE"})
_LIMITS = frozenset({"NO_PROCESSES", "TOO_MANY_COMMANDS"})


class ExecServicer(exec_pb2_grpc.ExecServiceServicer):
    """Serves commands."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    async def StartExec(
        self, request: exec_pb2.StartExecRequest, context: Context
    ) -> exec_pb2.StartExecResponse:
        sandbox, command = await self._start(request)
        return exec_pb2.StartExecResponse(exec=_command(command.record, sandbox.claim))

    async def AttachExec(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request_iterator: AsyncIterator[exec_pb2.AttachExecRequest], context: Context
    ) -> None:
        first = await anext(request_iterator, exec_pb2.AttachExecRequest())
        attachment, opened = await self._attach(first)
        await context.write(exec_pb2.AttachExecResponse(opened=opened))
        async with Workers() as workers, aclosing(attachment.view.events()) as events:
            taking = workers.start(f"input of {opened.exec_id}", attachment.take(request_iterator))
            async for event in events:
                await write(context, event)
            # A client that still writes when its stream ends loses what it has not read yet. One
            # that leaves now has received everything, so its call does not fail.
            with suppress(asyncio.CancelledError):
                await asyncio.wait({taking}, timeout=_FAREWELL_S)

    async def WaitExec(
        self, request: exec_pb2.WaitExecRequest, context: Context
    ) -> exec_pb2.WaitExecResponse:
        sandbox, command = await self._find(request)
        wait_s = seconds("wait", request.wait, _DEFAULT_WAIT_S, _LONGEST_WAIT_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await command.ended.wait()
        # The sandbox may have a new owner by now. An operator has no epoch and is no owner.
        if request.lease.epoch == sandbox.claim.epoch:
            sandbox.use()
        return exec_pb2.WaitExecResponse(exec=_command(command.record, sandbox.claim))

    async def SignalExec(
        self, request: exec_pb2.SignalExecRequest, context: Context
    ) -> exec_pb2.SignalExecResponse:
        in_range("number", request.number, 0, _HIGHEST_SIGNAL)
        sandbox, command = await self._find(request)
        if command.record.exit is None and request.number:
            await sandbox.get_connection().link()
            command.signal(request.number)
        elif command.record.exit is None:
            command.cancel()
            await command.ended.wait()
        return exec_pb2.SignalExecResponse(exec=_command(command.record, sandbox.claim))

    async def ListExecs(
        self, request: exec_pb2.ListExecsRequest, context: Context
    ) -> exec_pb2.ListExecsResponse:
        sandbox = self._leases.authorize(proof(request.lease, request.profile))
        found = (await sandbox.commands()).list()
        return exec_pb2.ListExecsResponse(
            execs=[_command(record, sandbox.claim) for record in found]
        )

    async def ReadExecOutput(
        self, request: exec_pb2.ReadExecOutputRequest, context: Context
    ) -> exec_pb2.ReadExecOutputResponse:
        stream = int(request.stream)
        if stream not in STREAMS:
            wanted = "standard output or standard error"
            raise InvalidArgument(f"stream: {wanted} is wanted", fields={"stream": wanted})
        length = in_range("length_bytes", request.length_bytes, 0, _MOST_LENGTH_BYTES)
        sandbox, command = await self._find(request)
        offset, end = request.offset, command.spool.end(stream)
        if offset < 0:
            offset = max(0, end + offset)
        wanted = length or _DEFAULT_LENGTH_BYTES
        start, data = await command.spool.read_all(stream, offset, wanted)
        return exec_pb2.ReadExecOutputResponse(
            data=data,
            offset=start,
            total_bytes=command.spool.end(stream),
            exec=_command(command.record, sandbox.claim),
        )

    async def _start(self, request: exec_pb2.StartExecRequest) -> tuple[Sandbox, Command]:
        sandbox = self._leases.authorize(proof(request.lease, request.profile))
        connection = sandbox.get_connection()
        placeholders = connection.placeholders(request.secret_refs)
        wanted = _start_command(request, placeholders)
        await connection.wait_settled()
        try:
            command = await connection.start(wanted)
        except StartRefused as why:
            raise _start_refused(why) from why
        _log.info("command %s runs in sandbox %s", request.exec_id, sandbox.claim.sandbox_id)
        return sandbox, command

    async def _attach(self, first: exec_pb2.AttachExecRequest) -> tuple[Attachment, exec_pb2.Exec]:
        match first.WhichOneof("kind"):
            case "start":
                try:
                    async with asyncio.timeout(DEFAULT_UNARY_S):
                        sandbox, command = await self._start(first.start)
                except TimeoutError:
                    raise Unavailable("the sandbox has not reported the start in time") from None
                attachment = Attachment(sandbox, command, first.start.lease.epoch)
            case "open":
                sandbox, command = await self._find(first.open)
                offsets = (first.open.stdout_offset, first.open.stderr_offset)
                for offset in offsets:
                    in_range("offset", offset, 0, 1 << 62)
                attachment = Attachment(sandbox, command, first.open.lease.epoch, offsets)
            case _:
                wanted = "open or start is wanted first"
                raise InvalidArgument("the first message opens", fields={"open": wanted})
        opened = _command(command.record, sandbox.claim)
        opened.ClearField("exit")
        return attachment, opened

    async def _find(
        self,
        request: exec_pb2.WaitExecRequest
        | exec_pb2.SignalExecRequest
        | exec_pb2.ReadExecOutputRequest
        | exec_pb2.AttachExecRequest.Open,
    ) -> tuple[Sandbox, Command]:
        sandbox = self._leases.authorize(proof(request.lease, request.profile))
        check_id("exec_id", request.exec_id)
        return sandbox, await sandbox.command(request.exec_id)


def _start_command(request: exec_pb2.StartExecRequest, secrets: Mapping[str, str]) -> StartCommand:
    """Convert a command to run; fails with InvalidArgument.

    Placeholders of requested secrets replace variables of the same names.
    """
    check_id("exec_id", request.exec_id)
    match request.WhichOneof("command"):
        case "argv" if request.argv.arguments and request.argv.arguments[0]:
            argv, fallback = tuple(request.argv.arguments), ""
        case "script":
            argv, fallback = ("bash", "-c", request.script), "sh"
        case _:
            wanted = "argv with a program, or a script"
            raise InvalidArgument(f"nothing to run: {wanted} is wanted", fields={"command": wanted})
    _check_texts(argv, request)
    return StartCommand(
        exec_id=request.exec_id,
        argv=argv,
        fallback=fallback,
        cwd=text("cwd", request.cwd),
        env={**secrets, **request.env, **(secrets if request.secret_refs else {})},
        terminal=terminal(request.terminal) if request.HasField("terminal") else None,
        stdin=request.stdin,
        run_timeout_s=seconds("run_timeout", request.run_timeout, _DEFAULT_RUN_S, _LONGEST_RUN_S),
        leave_children=request.leave_children,
    )


def _check_texts(argv: Sequence[str], request: exec_pb2.StartExecRequest) -> None:
    for argument in argv:
        text("command", argument)
    for name, value in request.env.items():
        text("env", value)
        if not text("env", name) or "=" in name:
            wanted = "names that are not empty and have no ="
            raise InvalidArgument(f"env: {wanted} are wanted", fields={"env": wanted})
    texts = [*argv, request.cwd, *request.env.keys(), *request.env.values()]
    in_range("command", sum(map(len, texts)), 0, _MOST_CHARACTERS)


def _command(record: CommandRecord, claim: Claim) -> exec_pb2.Exec:
    return message_of(
        record,
        exec_pb2.Exec,
        backend=claim.backend,
        isolation=claim.isolation,
        state="exited" if record.exit else "running",
        start_time=timestamp(record.started_at),
        exit=exit_to_wire(record.exit) if record.exit else None,
    )


def _start_refused(why: StartRefused) -> HermesError:
    message = f"the command was not started: {why}"
    if why.code in _PATHS:
        return PathInvalid(message, fields={"command": str(why)})
    if why.code in _LIMITS:
        return LimitExceeded(message)
    if why.code == "CONFLICT":
        return AlreadyExists(message)
    if why.code == "CANCELLED":
        return Unavailable(message)
    return InvalidArgument(message, fields={"command": str(why)})
