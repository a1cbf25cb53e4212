"""List, open and end sandboxes, and show the output of their commands."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager

import grpc.aio

from hermes.executor.v1 import exec_pb2, network_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.amounts import plural
from services.cli.command import JSON_LIST, YES, Command, Context, action, arg, flag
from services.cli.console import complain, printable, say
from services.cli.output import Column, age, duration, enum_word, local_time
from services.cli.sandboxes.exec_stream import ExecStream
from services.cli.sandboxes.executors import TELL_S, Executor, Executors, at_executors, executors
from services.cli.sandboxes.shell import SandboxAddress, Shell
from services.cli.sandboxes.trial import try_sandboxes
from services.errors import InvalidArgument, NotFound, Reason, reason_of

EXAMPLES = """\
examples:
  hermes sandboxes list --all
  hermes sandboxes open sbx_06h00k5s
  hermes sandboxes open sbx_06h00k5s -- tail -f build.log
  hermes sandboxes logs sbx_06h00k5s
  hermes sandboxes logs sbx_06h00k5s exc_06h00k7q --follow
  hermes sandboxes kill sbx_06h00k5s --yes
  hermes sandboxes try --network-denied -- id

Give a sandbox by its id, the beginning of its id, or its session. Press Ctrl-] twice to leave an
opened command running."""

LEAVE_HINT = "press Ctrl-] twice to leave it running, or exit to end it"
TAIL_BYTES = 4096
PAGE_BYTES = 1024 * 1024

_STREAMS = (exec_pb2.OUTPUT_STREAM_STDOUT, exec_pb2.OUTPUT_STREAM_STDERR)


def _backend(sandbox: sandbox_pb2.Sandbox) -> str:
    is_usual = sandbox.template in ("", "default")
    return sandbox.backend if is_usual else f"{sandbox.backend} ({sandbox.template})"


def _network(sandbox: sandbox_pb2.Sandbox) -> str:
    if not sandbox.HasField("network_policy"):
        return "of the machine"
    return enum_word(network_pb2.NetworkMode, sandbox.network_policy.mode).replace("_", " ")


SANDBOX = (
    Column("sandbox", "sandbox_id"),
    Column("session", "session_id"),
    Column("profile"),
    Column("backend", _backend),
    Column("isolation"),
    Column("network", _network),
    Column("state"),
    Column("age", "create_time", age),
    Column("runs", "running_command_count"),
)


@at_executors
async def _list(context: Context, deployment: Executors) -> None:
    """List sandboxes in use, the oldest first."""
    told = await _in_use(deployment, context.profile, everywhere=context.given.all)
    told.sort(key=lambda pair: pair[1].create_time.ToNanoseconds())
    empty = "There are no sandboxes. A session gets one with its first command."
    deployment.print_list(context, told, SANDBOX, empty)


async def _open(context: Context) -> int:
    """Open a shell in a sandbox, or run a command there."""
    given = context.given
    if given.exec and given.command:
        raise InvalidArgument("--exec reopens a command; do not give another one")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    term = context.settings.environ.get("TERM", "xterm") if has_terminal else ""
    async with _find(context) as place:
        shell = Shell(place, term)
        if has_terminal:
            complain(f"in sandbox {place.sandbox_id}; {LEAVE_HINT}")
        if given.exec:
            return await shell.rejoin(given.exec)
        return await shell.run(given.command)


async def _kill(context: Context) -> None:
    """End a sandbox and its commands; the workspace stays."""
    async with _find(context) as place:
        sandbox, stub = place.sandbox, SandboxServiceStub(place.channel)
        runs = plural(sandbox.running_command_count, "running command")
        question = f"End {sandbox.sandbox_id} of session {sandbox.session_id} ({runs})?"
        await context.confirm(question, "use --yes", "nothing was ended")
        await stub.ReleaseSandbox(sandbox_pb2.ReleaseSandboxRequest(**place.named))
    say(f"ended {place.sandbox_id}; its workspace stays")


async def _logs(context: Context) -> None:
    """Show the commands of a sandbox and the end of their output."""
    async with _find(context, ended=True) as place:
        shown = None
        if context.given.exec:
            shown = await _show(place, context.given.exec, 0)
        else:
            request = exec_pb2.ListExecsRequest(**place.named)
            for command in (await ExecServiceStub(place.channel).ListExecs(request)).execs:
                started = local_time(command.start_time, seconds=True)
                say(f"── {command.exec_id}  {started}  {_outcome(command)}")
                shown = await _show(place, command.exec_id, -TAIL_BYTES)
        if shown is None:
            say("No command has run in this sandbox yet.")
        elif context.given.follow:
            await _follow(place, shown)


def _outcome(command: exec_pb2.Exec) -> str:
    if not command.HasField("exit"):
        return "running"
    ended = command.exit
    how = f"exit {ended.code}"
    if not ended.HasField("code"):
        how = enum_word(exec_pb2.ExitReason, ended.reason).replace("_", " ")
    return f"{how} after {duration(ended.duration)}"


async def _show(place: SandboxAddress, exec_id: str, start: int) -> exec_pb2.AttachExecRequest.Open:
    """Show stored output from an offset; return the request for the rest."""
    stub, ends = ExecServiceStub(place.channel), list[int]()
    for stream in _STREAMS:
        offset, is_read = start, False
        while not is_read:
            request = exec_pb2.ReadExecOutputRequest(
                **place.named,
                exec_id=exec_id,
                stream=stream,
                offset=offset,
                length_bytes=PAGE_BYTES,
            )
            page = await stub.ReadExecOutput(request)
            _write(page.data, stream)
            offset = page.offset + len(page.data)
            is_read = not page.data or offset >= page.total_bytes
        ends.append(offset)
    return exec_pb2.AttachExecRequest.Open(
        **place.named, exec_id=exec_id, stdout_offset=ends[0], stderr_offset=ends[1]
    )


async def _follow(place: SandboxAddress, rest: exec_pb2.AttachExecRequest.Open) -> None:
    opening = exec_pb2.AttachExecRequest(open=rest)
    stream = ExecStream(place.channel, opening)
    async with aclosing(stream.happenings()) as happenings:
        async for happened in happenings:
            if isinstance(happened, exec_pb2.AttachExecResponse.Output):
                _write(happened.data, happened.stream)


def _write(data: bytes, stream: int) -> None:
    """Write output: sanitized to a terminal, unchanged to a pipe."""
    out = sys.stderr if stream == exec_pb2.OUTPUT_STREAM_STDERR else sys.stdout
    if out.isatty():
        out.write(printable(data.decode(errors="replace")))
    else:
        out.flush()  # earlier output goes first
        out.buffer.write(data)
    out.flush()


@asynccontextmanager
async def _find(context: Context, *, ended: bool = False) -> AsyncGenerator[SandboxAddress]:
    """Yield the named sandbox; an ended one only by its whole id."""
    named, profile = context.given.sandbox, context.profile
    async with executors(context.settings) as deployment:
        told = await _in_use(deployment, profile, everywhere=not profile)
        try:
            found = deployment.pick(
                named,
                told,
                lambda one: one.sandbox_id,
                lambda one: (one.session_id,),
                what="sandbox",
                see="hermes sandboxes list --all",
            )
        except NotFound:
            found = await _known(deployment, named, profile) if ended else []
            if not found:
                raise
        at, one = found[0]
        yield SandboxAddress(at.channel, one)


async def _in_use(
    deployment: Executors, profile: str, *, everywhere: bool
) -> list[tuple[Executor, sandbox_pb2.Sandbox]]:
    request = sandbox_pb2.ListSandboxesRequest(profile=profile, all_profiles=everywhere)

    async def ask(at: Executor) -> Sequence[sandbox_pb2.Sandbox]:
        stub = SandboxServiceStub(at.channel)
        return (await stub.ListSandboxes(request, timeout=TELL_S)).sandboxes

    return await deployment.ask(ask)


async def _known(
    deployment: Executors, sandbox_id: str, profile: str
) -> list[tuple[Executor, sandbox_pb2.Sandbox]]:
    """Return the sandbox with an id, wherever it is or was."""
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=sandbox_id, profile=profile)

    async def ask(at: Executor) -> Sequence[sandbox_pb2.Sandbox]:
        try:
            answer = await SandboxServiceStub(at.channel).GetSandbox(request, timeout=TELL_S)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) is Reason.NOT_FOUND:
                return ()
            raise
        return (answer.sandbox,)

    return await deployment.ask(ask)


_SANDBOX = arg("SANDBOX", "id or session of the sandbox")
COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_list, flag("--all", "list the sandboxes of all profiles"), JSON_LIST),
        action(
            _open,
            _SANDBOX,
            arg("COMMAND*", "command to run, after --"),
            arg("--exec EXEC", "return to this running command"),
        ),
        action(_kill, _SANDBOX, YES),
        action(
            _logs,
            _SANDBOX,
            arg("EXEC?", "show the whole output of this command"),
            flag("--follow", "keep printing until EXEC, or the newest command, ends"),
        ),
        action(
            try_sandboxes,
            arg("COMMAND*", "command to run, after -- (id)"),
            arg("--template NAME", "sandbox template (the default)"),
            flag("--network-denied", "fail if the sandbox can reach anything outside"),
            JSON_LIST,
            name="try",
        ),
    ),
)
