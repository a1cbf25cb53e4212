"""Try whether sandboxes work: acquire one of each executor, run a command, and give it back."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.cli.command import Context
from services.cli.console import complain, printable, say
from services.cli.output import enum_word, print_json
from services.cli.sandboxes.exec_stream import ExecStream
from services.cli.sandboxes.executors import Executor, executors, places_of
from services.config.settings import Settings
from services.ids import new_id
from services.rpc.addresses import TcpAddress, parse_address
from services.runtime.config import ServiceConfig

USUAL = ("id",)
"""The default command."""
ACQUIRE_S = 150
RUN_S = 60
SHOWN_BYTES = 4096
PUBLIC = ("1.1.1.1 443", "2606:4700:4700::1111 443", "169.254.169.254 80")
"""Destinations that no isolated sandbox may reach: the internet, and cloud metadata."""

PROBE = """\
import socket, sys
for place in sys.argv[1:]:
    host, port = place.split()
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        continue
    print(place)
"""


class Trial(Struct, frozen=True):
    """The result of trying an executor."""

    executor: str | None
    backend: str
    isolation: str
    launch: str
    status: int | None
    """The command's exit status; None if it was killed."""
    output: str
    reached: list[str]
    """Places that were reached and should not be."""


async def try_sandboxes(context: Context) -> int:
    """Run a command in a new sandbox of each executor, then end the sandbox."""
    given = context.given
    request = context.request(sandbox_pb2.AcquireSandboxRequest)
    command, probe = given.command or USUAL, given.network_denied
    trials, silent = await trials_of(context.settings, request, command, probe=probe)
    for endpoint, instead in silent.items():
        complain(f"the executor at {endpoint} {instead}")
    if given.json:
        print_json(trials)
    else:
        for trial in trials:
            _tell(trial, was_probed=given.network_denied)
    are_well = all(trial.status == 0 and not trial.reached for trial in trials)
    return 0 if are_well and not silent else 1


async def trials_of(
    settings: Settings,
    request: sandbox_pb2.AcquireSandboxRequest,
    command: Sequence[str] = USUAL,
    *,
    probe: bool,
) -> tuple[list[Trial], Mapping[str, str]]:
    """Try each executor; return the results, and the failures of silent ones."""
    request.wait.FromSeconds(ACQUIRE_S - 30)
    async with executors(settings) as deployment:
        places = await _places(settings, deployment.each) if probe else []
        trials = [await _trial(at, request, command, places) for at in deployment.each]
    return trials, deployment.silent


def _tell(trial: Trial, *, was_probed: bool) -> None:
    where = f"{trial.executor}: " if trial.executor else ""
    say(f"{where}{trial.backend}, isolation {trial.isolation}, {trial.launch} start")
    say(printable(trial.output.rstrip()))
    if trial.status != 0:
        complain(f"{where}the command failed with status {trial.status}")
    for place in trial.reached:
        complain(f"{where}the sandbox reached {place}")
    if was_probed and not trial.reached:
        say("the sandbox reached nothing outside")


async def _trial(
    at: Executor,
    request: sandbox_pb2.AcquireSandboxRequest,
    command: Sequence[str],
    places: Sequence[str],
) -> Trial:
    sandboxes = SandboxServiceStub(at.channel)
    request.request_id, request.session_id = new_id("acq"), new_id("trial")
    acquired = await sandboxes.AcquireSandbox(request, timeout=ACQUIRE_S)
    named: dict[str, Any] = {"lease": acquired.lease, "profile": request.profile}
    try:
        status, output = await _run(at, named, command)
        reached = []
        if places:
            probed, found = await _run(at, named, ["python3", "-c", PROBE, *places])
            # Without a status, nothing was probed.
            reached = (
                found.split("\n")[:-1] if probed == 0 else [f"unknown (the test failed: {found})"]
            )
    finally:
        await sandboxes.ReleaseSandbox(sandbox_pb2.ReleaseSandboxRequest(**named))
    return Trial(
        at.endpoint or None,
        acquired.sandbox.backend,
        enum_word(sandbox_pb2.IsolationLevel, acquired.sandbox.isolation),
        enum_word(sandbox_pb2.LaunchKind, acquired.launch),
        status,
        output,
        reached,
    )


async def _run(
    at: Executor, named: Mapping[str, Any], command: Sequence[str]
) -> tuple[int | None, str]:
    """Return the status and the beginning of the output of a command."""
    request = exec_pb2.StartExecRequest(
        **named,
        exec_id=new_id("exc"),
        argv=exec_pb2.Argv(arguments=command),
        run_timeout=Duration(seconds=RUN_S),
    )
    stream = ExecStream(at.channel, exec_pb2.AttachExecRequest(start=request))
    status, written = None, b""
    async with aclosing(stream.happenings()) as happenings:
        async for happened in happenings:
            if isinstance(happened, exec_pb2.Exit):
                status = happened.code if happened.HasField("code") else None
            else:
                written = (written + happened.data)[:SHOWN_BYTES]
    return status, written.decode(errors="replace")


async def _places(settings: Settings, each: Sequence[Executor]) -> list[str]:
    """Return the forbidden places: the outside, and the executors."""
    config = settings.load(ServiceConfig)
    endpoints = [parse_address(one.endpoint) for one in each if one.endpoint]
    found = list(PUBLIC)
    for address in (config.addresses.find("executor", settings.home), *endpoints):
        if isinstance(address, TcpAddress) and not address.is_local:
            found += [f"{place.host} {place.port}" for place in await places_of(address)]
    return list(dict.fromkeys(found))
