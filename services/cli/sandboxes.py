"""List, use and end the sandboxes of a running executor, and read what ran in them."""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from hermes.executor.v1 import exec_pb2, network_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.cli.arguments import Actions
from services.cli.console import complain, print_json, printable, say
from services.cli.exec_stream import ExecStream
from services.cli.executors import TELL_S, Answers, Executor, Executors, executors
from services.cli.sandbox_shell import Place, Shell
from services.cli.sandbox_trial import try_sandboxes
from services.cli.standard_input import agreed
from services.cli.startup import load, logged
from services.config import Settings
from services.errors import InvalidArgument, Reason, reason_of

EXAMPLES = """\
examples:
  hermes sandboxes list --all
  hermes sandboxes open sbx_06h00k5s
  hermes sandboxes open sbx_06h00k5s -- tail -f build.log
  hermes sandboxes logs sbx_06h00k5s
  hermes sandboxes logs sbx_06h00k5s exc_06h00k7q --follow
  hermes sandboxes kill sbx_06h00k5s --yes
  hermes sandboxes try --network-denied -- id

A sandbox is named by its id, the beginning of it, or its session. In a terminal, Ctrl-] pressed
twice leaves what was opened running."""

LEAVE_HINT = "Ctrl-] twice leaves this running; exit ends it"
TAIL_BYTES = 4096
HEADINGS = (
    *("sandbox", "session", "profile", "backend", "isolation"),
    *("network", "state", "age", "runs"),
)
PAGE_BYTES = 1024 * 1024

_STREAMS = (exec_pb2.OUTPUT_STREAM_STDOUT, exec_pb2.OUTPUT_STREAM_STDERR)
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes sandboxes`."""
    actions = Actions(parser, "list|open|kill|logs|try")
    listing = actions.add("list", "the sandboxes that are in use, the oldest first")
    listing.add_argument("--all", action="store_true", help="those of all profiles")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    opened = actions.add("open", "a shell, or a command, in a sandbox")
    opened.add_argument("sandbox", metavar="SANDBOX", help="the sandbox, as list shows it")
    opened.add_argument("command", metavar="COMMAND", nargs="*", help="what to run, behind --")
    opened.add_argument("--exec", metavar="EXEC", help="go back to this command instead")
    kill = actions.add("kill", "end a sandbox and all that runs in it; its workspace is kept")
    kill.add_argument("sandbox", metavar="SANDBOX", help="the sandbox, as list shows it")
    kill.add_argument("--yes", action="store_true", help="do not ask")
    logs = actions.add("logs", "the commands of a sandbox, and the end of what each wrote")
    logs.add_argument("sandbox", metavar="SANDBOX", help="the sandbox, as list shows it")
    logs.add_argument("exec", metavar="EXEC", nargs="?", help="all that this command wrote")
    logs.add_argument(
        "--follow", action="store_true", help="go on until EXEC, or the newest command, has ended"
    )
    trial = actions.add("try", "run a command in a new sandbox of each executor, and end it")
    trial.add_argument("command", metavar="COMMAND", nargs="*", help="what to run, behind -- (id)")
    trial.add_argument("--template", metavar="NAME", help="template of the sandboxes (the usual)")
    trial.add_argument(
        "--network-denied",
        action="store_true",
        help="fail if anything outside is reached from there",
    )
    trial.add_argument("--json", action="store_true", help="one JSON list")


def run(arguments: argparse.Namespace) -> int:
    """Lists, opens, kills, shows or tries."""
    settings = load(arguments)
    settings.home.create()
    actions = {"list": _list, "open": _open, "kill": _kill, "logs": _logs, "try": try_sandboxes}
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(actions[arguments.action](settings, arguments))


# ---- list


async def _list(settings: Settings, arguments: argparse.Namespace) -> int:
    request = sandbox_pb2.ListSandboxesRequest(
        profile=arguments.profile or "", all_profiles=arguments.all
    )
    async with executors(settings) as deployment:
        answers = await _sandboxes(deployment, request)
    answers.complain()
    found = sorted(answers.told, key=lambda pair: pair[1].create_time.ToNanoseconds())
    if arguments.json:
        print_json([_described(*pair) for pair in found])
    elif found:
        deployment.print_table(HEADINGS, [(at, _row(at, one)) for at, one in found])
    else:
        say("There are no sandboxes; a session has one from its first command on.")
    return 0


def _row(at: Executor, sandbox: sandbox_pb2.Sandbox) -> tuple[str, ...]:
    described = _described(at, sandbox)
    template = "" if sandbox.template in ("", "default") else f" ({sandbox.template})"
    return (
        sandbox.sandbox_id,
        printable(sandbox.session_id),
        printable(sandbox.profile),
        f"{sandbox.backend}{template}",
        described["isolation"],
        described["network"],
        described["state"],
        _ago(sandbox.create_time),
        str(sandbox.running_command_count),
    )


def _described(at: Executor, sandbox: sandbox_pb2.Sandbox) -> dict[str, Any]:
    isolation = sandbox_pb2.IsolationLevel.Name(sandbox.isolation)
    state = sandbox_pb2.SandboxState.Name(sandbox.state)
    return {
        "sandbox_id": sandbox.sandbox_id,
        "executor": at.endpoint or None,
        "session_id": sandbox.session_id,
        "profile": sandbox.profile,
        "backend": sandbox.backend,
        "template": sandbox.template,
        "isolation": isolation.removeprefix("ISOLATION_LEVEL_").lower(),
        "network": _network(sandbox),
        "state": state.removeprefix("SANDBOX_STATE_").lower(),
        "created_at": sandbox.create_time.ToJsonString(),
        "expires_in_s": round(sandbox.expires_in.ToTimedelta().total_seconds()),
        "running_commands": sandbox.running_command_count,
    }


def _network(sandbox: sandbox_pb2.Sandbox) -> str:
    """What its commands can reach."""
    if not sandbox.HasField("network_policy"):
        return "of its machine"
    mode = network_pb2.NetworkMode.Name(sandbox.network_policy.mode)
    return mode.removeprefix("NETWORK_MODE_").lower().replace("_", " ")


def _ago(moment: Timestamp) -> str:
    seconds = max(0, int((datetime.now(UTC) - moment.ToDatetime(UTC)).total_seconds()))
    return next((f"{seconds // size} {unit}" for unit, size in _UNITS if seconds >= size), "0 s")


# ---- open


async def _open(settings: Settings, arguments: argparse.Namespace) -> int:
    if arguments.exec and arguments.command:
        raise InvalidArgument("--exec goes back to a command, and takes no other")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    term = settings.environ.get("TERM", "xterm") if has_terminal else ""
    async with _found(settings, arguments) as place:
        shell = Shell(place, term)
        if has_terminal:
            complain(f"in sandbox {place.sandbox_id}; {LEAVE_HINT}")
        if arguments.exec:
            return await shell.rejoin(arguments.exec)
        return await shell.run(arguments.command)


# ---- kill


async def _kill(settings: Settings, arguments: argparse.Namespace) -> int:
    async with _found(settings, arguments) as place:
        stub = SandboxServiceStub(place.channel)
        if not arguments.yes and not await _agreed(stub, place):
            complain("nothing was ended")
            return 1
        await stub.ReleaseSandbox(sandbox_pb2.ReleaseSandboxRequest(**place.named))
    say(f"{place.sandbox_id} has ended; its workspace is kept")
    return 0


async def _agreed(stub: SandboxServiceStub, place: Place) -> bool:
    """Whether the person at the terminal wants it."""
    request = sandbox_pb2.GetSandboxRequest(sandbox_id=place.sandbox_id, profile=place.profile)
    sandbox = (await stub.GetSandbox(request)).sandbox
    count = sandbox.running_command_count
    question = (
        f"End {sandbox.sandbox_id} of session {printable(sandbox.session_id)}, in which "
        f"{count} command{'' if count == 1 else 's'} run{'s' if count == 1 else ''}?"
    )
    return await agreed(question, "kill it with --yes")


# ---- logs


async def _logs(settings: Settings, arguments: argparse.Namespace) -> int:
    async with _found(settings, arguments) as place:
        stub = ExecServiceStub(place.channel)
        if arguments.exec:
            shown = await _show(place, stub, arguments.exec, 0)
        else:
            listed = await stub.ListExecs(exec_pb2.ListExecsRequest(**place.named))
            shown = None
            for command in listed.execs:
                say(_heading(command))
                shown = await _show(place, stub, command.exec_id, -TAIL_BYTES)
        if shown is None:
            say("Nothing was run in it yet.")
        elif arguments.follow:
            await _follow(place, shown)
    return 0


def _heading(command: exec_pb2.Exec) -> str:
    started = command.start_time.ToDatetime(UTC).astimezone()
    return f"── {command.exec_id}  {started:%Y-%m-%d %H:%M:%S}  {_outcome(command)}"


def _outcome(command: exec_pb2.Exec) -> str:
    if not command.HasField("exit"):
        return "runs"
    ended = command.exit
    seconds = ended.duration.ToMilliseconds() / 1000
    if ended.HasField("code"):
        return f"exit {ended.code} after {seconds:.1f} s"
    reason = exec_pb2.ExitReason.Name(ended.reason).removeprefix("EXIT_REASON_").lower()
    return f"{reason.replace('_', ' ')} after {seconds:.1f} s"


async def _show(
    place: Place, stub: ExecServiceStub, exec_id: str, offset: int
) -> exec_pb2.AttachExecRequest.Open:
    """Show what is stored of a command's output from an offset on; returns what follows it."""
    ends = [await _show_stream(place, stub, exec_id, stream, offset) for stream in _STREAMS]
    return exec_pb2.AttachExecRequest.Open(
        **place.named, exec_id=exec_id, stdout_offset=ends[0], stderr_offset=ends[1]
    )


async def _show_stream(
    place: Place,
    stub: ExecServiceStub,
    exec_id: str,
    stream: exec_pb2.OutputStream.ValueType,
    offset: int,
) -> int:
    """Show what is stored of one stream from an offset on, and return its end."""
    while True:
        page = await stub.ReadExecOutput(
            exec_pb2.ReadExecOutputRequest(
                **place.named,
                exec_id=exec_id,
                stream=stream,
                offset=offset,
                length_bytes=PAGE_BYTES,
            )
        )
        _write(page.data, stream)
        offset = page.offset + len(page.data)
        if not page.data or offset >= page.total_bytes:
            return offset


async def _follow(place: Place, rest: exec_pb2.AttachExecRequest.Open) -> None:
    """Show the rest of what a command writes, until it ends."""
    opening = exec_pb2.AttachExecRequest(open=rest)
    stream = ExecStream(place.channel, place.lease, place.profile, opening)
    async with aclosing(stream.happenings()) as happenings:
        async for happened in happenings:
            if isinstance(happened, exec_pb2.AttachExecResponse.Output):
                _write(happened.data, happened.stream)


def _write(data: bytes, stream: int) -> None:
    """A terminal is not to obey what some command wrote; a pipe gets the bytes as they are."""
    out = sys.stderr if stream == exec_pb2.OUTPUT_STREAM_STDERR else sys.stdout
    if out.isatty():
        out.write(printable(data.decode(errors="replace")))
    else:
        out.flush()  # what was said before goes before
        out.buffer.write(data)
    out.flush()


# ---- finding


@asynccontextmanager
async def _found(settings: Settings, arguments: argparse.Namespace) -> AsyncGenerator[Place]:
    """The sandbox that was named: one in use, or by its whole id one that has ended."""
    name, profile = arguments.sandbox, arguments.profile or ""
    request = sandbox_pb2.ListSandboxesRequest(profile=profile, all_profiles=not profile)
    async with executors(settings) as deployment:
        answers = await _sandboxes(deployment, request)
        found = [
            (at, one)
            for at, one in answers.told
            if name == one.session_id or one.sandbox_id.startswith(name)
        ]
        if not found and arguments.action == "logs":
            answers = await _sandbox(deployment, name, profile)
            found = answers.told
        if len(found) > 1:
            names = ", ".join(one.sandbox_id for _, one in found)
            raise InvalidArgument(f"{name} could be each of {names}; say which")
        if not found:
            raise answers.nothing(f"there is no sandbox {name}", "hermes sandboxes list --all")
        at, one = found[0]
        yield Place(at.channel, one.sandbox_id, one.profile)


async def _sandboxes(
    deployment: Executors, request: sandbox_pb2.ListSandboxesRequest
) -> Answers[sandbox_pb2.Sandbox]:
    async def ask(at: Executor) -> Sequence[sandbox_pb2.Sandbox]:
        stub = SandboxServiceStub(at.channel)
        return (await stub.ListSandboxes(request, timeout=TELL_S)).sandboxes

    return await deployment.ask(ask)


async def _sandbox(
    deployment: Executors, sandbox_id: str, profile: str
) -> Answers[sandbox_pb2.Sandbox]:
    """The sandbox with an id, wherever it is or was."""
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
