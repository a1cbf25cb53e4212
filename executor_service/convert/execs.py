"""Commands."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from executor_service.backends.base import Isolation
from executor_service.commands import views
from executor_service.convert.common import duration, in_range, seconds, text, timestamp
from executor_service.convert.sandboxes import ISOLATION
from executor_service.link import StartCommand, TerminalSize
from executor_service.records import Claim, CommandExit, CommandRecord
from hermes.executor.v1 import exec_pb2
from services.errors import InvalidArgument
from services.validation import check_id

_DEFAULT_RUN_S = 180.0
_LONGEST_RUN_S = 24 * 3600.0
_DEFAULT_GRACE_S = 2.0
_LONGEST_GRACE_S = 30.0
_MOST_CHARACTERS = 512 * 1024
"""Of a command and its variables; the kernel takes no single argument of more than 128 KiB."""
_MOST_CELLS = 1000
_STREAMS = {1: exec_pb2.OUTPUT_STREAM_STDOUT, 2: exec_pb2.OUTPUT_STREAM_STDERR}


def start_commands(
    request: exec_pb2.StartExecRequest, secrets: Mapping[str, str]
) -> Sequence[StartCommand]:
    """What is to be run, in the words that are tried one after the other; or InvalidArgument.

    Variables of the request give way to what stands for secrets that it names.
    """
    check_id("exec_id", request.exec_id)
    match request.WhichOneof("command"):
        case "argv" if request.argv.arguments and request.argv.arguments[0]:
            variants = [tuple(request.argv.arguments)]
        case "script":
            variants = [(shell, "-c", request.script) for shell in ("bash", "sh")]
        case _:
            wanted = "argv with a program, or a script"
            raise InvalidArgument(f"nothing to run: {wanted} is wanted", fields={"command": wanted})
    _check_texts(variants[0], request)
    command = StartCommand(
        exec_id=request.exec_id,
        argv=variants[0],
        cwd=text("cwd", request.cwd),
        env={**secrets, **request.env, **(secrets if request.secret_refs else {})},
        terminal=terminal(request.terminal) if request.HasField("terminal") else None,
        stdin=request.stdin,
        run_timeout_s=seconds("run_timeout", request.run_timeout, _DEFAULT_RUN_S, _LONGEST_RUN_S),
        output_limit_bytes=in_range("output_limit_bytes", request.output_limit_bytes, 0, 1 << 62)
        or None,
        kill_grace_s=seconds("kill_grace", request.kill_grace, _DEFAULT_GRACE_S, _LONGEST_GRACE_S),
        leave_children=request.leave_children,
    )
    return [replace(command, argv=argv) for argv in variants]


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


def terminal(size: exec_pb2.TerminalSize) -> TerminalSize:
    """The size of a terminal; fails with InvalidArgument."""
    return TerminalSize(
        in_range("row_count", size.row_count, 1, _MOST_CELLS),
        in_range("column_count", size.column_count, 1, _MOST_CELLS),
    )


def command(record: CommandRecord, claim: Claim) -> exec_pb2.Exec:
    """A command as it is now."""
    wire = exec_pb2.Exec(
        exec_id=record.exec_id,
        sandbox_id=record.sandbox_id,
        backend=claim.backend,
        isolation=ISOLATION[Isolation(claim.isolation)],
        state=exec_pb2.EXEC_STATE_EXITED if record.exit else exec_pb2.EXEC_STATE_RUNNING,
        start_time=timestamp(record.started_at),
    )
    if record.exit is not None:
        wire.exit.CopyFrom(_exit(record.exit))
    return wire


def event(happened: views.Event) -> exec_pb2.AttachExecResponse:
    """What a watcher is told."""
    match happened:
        case views.Output():
            # Filled in where it is: to make it apart would copy the data twice more.
            response = exec_pb2.AttachExecResponse()
            response.output.stream = _STREAMS[happened.stream]
            response.output.offset = happened.offset
            response.output.data = happened.data
            if happened.is_dropped_before:
                response.output.dropped_before_offset = happened.offset
            return response
        case views.InputOffset(offset):
            return exec_pb2.AttachExecResponse(stdin_ack_offset=offset)
        case views.Heartbeat(usage):
            return exec_pb2.AttachExecResponse(
                heartbeat=exec_pb2.AttachExecResponse.Heartbeat(
                    rss_bytes=usage.rss_bytes,
                    cpu_time=duration(usage.cpu_ms / 1000),
                    process_count=usage.pids,
                )
            )
        case views.Ended(exit_):
            return exec_pb2.AttachExecResponse(exited=_exit(exit_))


def stream_number(stream: int) -> int:
    """The descriptor of a stream; fails with InvalidArgument."""
    found = next((number for number, wire in _STREAMS.items() if wire == stream), None)
    if found is None:
        wanted = "standard output or standard error"
        raise InvalidArgument(f"stream: {wanted} is wanted", fields={"stream": wanted})
    return found


def _exit(ended: CommandExit) -> exec_pb2.Exit:
    return exec_pb2.Exit(
        reason=exec_pb2.ExitReason.Value(f"EXIT_REASON_{ended.reason}"),
        code=ended.code,
        signal=ended.signal or 0,
        stdout_bytes=ended.stdout_bytes,
        stderr_bytes=ended.stderr_bytes,
        truncated=ended.truncated,
        survivor_count=ended.survivors,
        duration=duration(ended.duration_ms / 1000),
    )
