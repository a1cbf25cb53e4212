"""Long-running programs in sandboxes of their own, reached by their standard streams."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct, field

from agent_service.clients.commands import CHUNK_BYTES, Answers, Sent
from agent_service.clients.executors import Executors
from agent_service.records.sandbox import SandboxUnavailable
from hermes.executor.v1 import exec_pb2, network_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.errors import message_of
from services.ids import new_id
from services.lifecycle import unbroken
from services.rpc.deadlines import DEFAULT_UNARY_S
from services.rpc.streams import Requests, open_stream

RUN_S = 24 * 3600
ANY_HOST = "*"
_TAIL_BYTES = 2_000
_HOST = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:]+)(?::(?P<ports>\d{1,5}(?:,\d{1,5})*))?")
_STDOUT = exec_pb2.OUTPUT_STREAM_STDOUT


class Program(Struct, frozen=True):
    """A program to run."""

    profile: str
    name: str
    """Unique in the profile; each name has its own sandbox."""
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    """Names of secrets of which it sees placeholders."""
    hosts: tuple[str, ...] = ()
    """What it may reach; `*` is every public address, and nothing means no network."""
    template: str = ""
    workdir: str = ""
    """Host folder at /workspace; empty means a workspace of its own."""


class Process:
    """A running program."""

    def __init__(self, answers: Answers, requests: Sent) -> None:
        self._answers = answers
        self._requests = requests
        self._sent_bytes = 0
        self._errors = bytearray()
        self._is_open = asyncio.Event()
        self.ending = ""
        """How it ended, in words; empty while it runs."""

    @property
    def error_text(self) -> str:
        """The end of what it wrote to its standard error."""
        return bytes(self._errors).decode(errors="replace").strip()

    async def write(self, data: bytes) -> None:
        """Send input, once the program has started."""
        await self._is_open.wait()
        for start in range(0, len(data), CHUNK_BYTES):
            chunk = data[start : start + CHUNK_BYTES]
            stdin = exec_pb2.AttachExecRequest.Stdin(offset=self._sent_bytes, data=chunk)
            self._requests.send(exec_pb2.AttachExecRequest(stdin=stdin))
            self._sent_bytes += len(chunk)

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what it writes to its standard output, until it ends or loses output."""
        position = 0
        try:
            async for message in self._answers:
                match message.WhichOneof("kind"):
                    case "opened":
                        self._is_open.set()
                    case "output" if message.output.stream == _STDOUT:
                        if message.output.offset != position:
                            self.ending = "it wrote faster than it could be read"
                            return
                        position += len(message.output.data)
                        yield message.output.data
                    case "output":
                        self._errors += message.output.data
                        del self._errors[:-_TAIL_BYTES]
                    case "exited":
                        self.ending = _ending(message.exited)
                        return
                    case _:
                        pass
        except grpc.aio.AioRpcError as error:
            self.ending = message_of(error)
        self.ending = self.ending or "it has ended"


class Processes:
    """Runs programs."""

    def __init__(self, executors: Executors, instance: str) -> None:
        """`instance` tells this process's sandboxes from those of other replicas."""
        self._executors = executors
        self._instance = hashlib.sha256(instance.encode()).hexdigest()[:8]

    @asynccontextmanager
    async def run(self, program: Program) -> AsyncGenerator[Process]:
        """Start a program in a new sandbox, and end both when left; SandboxUnavailable."""
        try:
            claimed = await self._claim(program)
        except grpc.aio.AioRpcError as error:
            raise SandboxUnavailable(message_of(error)) from error
        channel = self._executors.channel(claimed.endpoint)
        start = exec_pb2.StartExecRequest(
            lease=claimed.lease,
            profile=program.profile,
            exec_id=new_id("exc"),
            argv=exec_pb2.Argv(arguments=program.argv),
            env=program.env,
            secret_refs=program.secrets,
            run_timeout=Duration(seconds=RUN_S),
            stdin=True,
        )
        requests = Requests([exec_pb2.AttachExecRequest(start=start)])
        try:
            async with open_stream(ExecServiceStub(channel).AttachExec(requests)) as answers:
                yield Process(answers, requests)
        finally:
            requests.end()
            await unbroken(self._release(claimed, program.profile))

    async def _claim(self, program: Program) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a fresh sandbox; one that a killed predecessor left is ended first."""
        place = hashlib.sha256(f"{program.profile}/{program.name}".encode()).hexdigest()[:16]
        while True:
            request = sandbox_pb2.AcquireSandboxRequest(
                request_id=new_id("acq"),
                profile=program.profile,
                session_id=f"mcp.{self._instance}.{place}",
                template=program.template,
                workdir=program.workdir,
                network_policy=_policy(program.hosts),
            )
            claimed = await self._executors.acquire(request, "", "")
            if claimed.launch != sandbox_pb2.LAUNCH_KIND_RESUMED:
                return claimed
            await self._release(claimed, program.profile)

    async def _release(self, claimed: sandbox_pb2.AcquireSandboxResponse, profile: str) -> None:
        stub = SandboxServiceStub(self._executors.channel(claimed.endpoint))
        release = sandbox_pb2.ReleaseSandboxRequest(lease=claimed.lease, profile=profile)
        try:
            await stub.ReleaseSandbox(release, timeout=DEFAULT_UNARY_S)
        except grpc.aio.AioRpcError:
            return  # it ends when its lease does


def _policy(hosts: tuple[str, ...]) -> network_pb2.NetworkPolicy:
    if ANY_HOST in hosts:
        return network_pb2.NetworkPolicy(mode=network_pb2.NETWORK_MODE_OPEN)
    if not hosts:
        return network_pb2.NetworkPolicy(mode=network_pb2.NETWORK_MODE_NONE)
    rules = [_rule(host) for host in hosts]
    return network_pb2.NetworkPolicy(mode=network_pb2.NETWORK_MODE_ALLOW_LIST, rules=rules)


def _rule(text: str) -> network_pb2.NetworkRule:
    found = _HOST.fullmatch(text)
    if found is None:
        raise SandboxUnavailable(f"{text!r} is not a host such as api.example.com:8443")
    ports = [int(port) for port in (found["ports"] or "").split(",") if port]
    return network_pb2.NetworkRule(host=found["host"].strip("[]"), ports=ports)


def _ending(ended: exec_pb2.Exit) -> str:
    if ended.reason == exec_pb2.EXIT_REASON_EXITED:
        return f"it ended with exit code {ended.code}"
    name = exec_pb2.ExitReason.Name(ended.reason).removeprefix("EXIT_REASON_")
    return f"it ended: {name.lower().replace('_', ' ')}"
