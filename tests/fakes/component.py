"""A component with one method of each kind, whose answers depend on the id that is sent."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import grpc
import grpc.aio

from hermes.agent.v1 import turn_pb2, turn_pb2_grpc
from hermes.executor.v1 import exec_pb2, exec_pb2_grpc, file_pb2, file_pb2_grpc
from services.errors import InvalidArgument, LimitExceeded, NotFound
from services.rpc.addresses import Address, UnixAddress
from services.rpc.auth import Identity, Policy, allow, caller, new_tokens
from services.rpc.channels import Channels
from services.rpc.in_process import InProcessServer
from services.runtime.server import ListenOptions, Server
from services.telemetry.logs import bound_ids

GATEWAY = {Identity.GATEWAY}
POLICY: Policy = {
    **allow(
        "hermes.agent.v1.TurnService",
        {
            "GetTurn": {Identity.GATEWAY, Identity.AGENT},
            "InterruptTurn": GATEWAY,
            "StartTurn": {Identity.SCHEDULER},
            "WatchTurn": GATEWAY,
        },
    ),
    **allow("hermes.executor.v1.ExecService", {"AttachExec": GATEWAY}),
    **allow("hermes.executor.v1.FileService", {"UploadFile": GATEWAY, "DownloadFile": GATEWAY}),
}

_Context = grpc.aio.ServicerContext[Any, Any]


class Seen:
    """What the methods have seen, and what the slow ones wait for."""

    def __init__(self) -> None:
        self.callers: list[Identity] = []
        self.deadlines_s: list[float | None] = []
        self.ids: list[dict[str, str]] = []
        self.ended: list[str] = []
        self.started = asyncio.Event()
        self.release = asyncio.Event()


class Turns(turn_pb2_grpc.TurnServiceServicer):
    """Unary methods and a stream; InterruptTurn is left out."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    async def GetTurn(
        self, request: turn_pb2.GetTurnRequest, context: _Context
    ) -> turn_pb2.GetTurnResponse:
        self._seen.callers.append(caller())
        self._seen.deadlines_s.append(context.time_remaining())
        self._seen.ids.append(dict(bound_ids()))
        match request.turn_id:
            case "missing":
                raise NotFound("there is no such turn", metadata={"turn_id": "missing"})
            case "malformed":
                raise InvalidArgument("bad turn", fields={"turn_id": "is malformed"})
            case "limited":
                raise LimitExceeded("too many turns", retry_after_s=1.5)
            case "bug":
                raise ZeroDivisionError("the password is swordfish")
            case "alone":
                metadata = grpc.aio.Metadata()
                unavailable = grpc.StatusCode.UNAVAILABLE
                raise grpc.aio.AioRpcError(unavailable, metadata, metadata, "10.0.0.1", None)
            case "slow":
                self._seen.started.set()
                try:
                    await self._seen.release.wait()
                finally:
                    self._seen.ended.append("slow")
            case _:
                pass
        return turn_pb2.GetTurnResponse()

    async def StartTurn(
        self, request: turn_pb2.StartTurnRequest, context: _Context
    ) -> turn_pb2.StartTurnResponse:
        return turn_pb2.StartTurnResponse()

    async def WatchTurn(
        self, request: turn_pb2.WatchTurnRequest, context: _Context
    ) -> AsyncIterator[turn_pb2.WatchTurnResponse]:
        sequence = request.after_sequence
        try:
            text = "x" * 1_000_000 if request.turn_id == "flood" else ""
            while request.turn_id in {"endless", "flood"} or sequence < 3:
                sequence += 1
                yield watched(sequence, text)
                self._seen.started.set()
                if request.turn_id == "slow":
                    await self._seen.release.wait()
                if request.turn_id == "bug":
                    raise ZeroDivisionError("the password is swordfish")
        finally:
            self._seen.ended.append(request.turn_id)


class Execs(exec_pb2_grpc.ExecServiceServicer):
    """A stream in both directions that answers each message with one, but refuses input."""

    async def AttachExec(
        self, request_iterator: AsyncIterator[exec_pb2.AttachExecRequest], context: _Context
    ) -> AsyncIterator[exec_pb2.AttachExecResponse]:
        count = 0
        async for request in request_iterator:
            if request.HasField("stdin"):
                raise InvalidArgument("it takes no input")
            count += 1
            yield exec_pb2.AttachExecResponse(stdin_ack_offset=count)


class Files(file_pb2_grpc.FileServiceServicer):
    """A stream to the server, and one that is written rather than yielded."""

    async def UploadFile(
        self, request_iterator: AsyncIterator[file_pb2.UploadFileRequest], context: _Context
    ) -> file_pb2.UploadFileResponse:
        async for request in request_iterator:
            if not request.HasField("header"):
                raise InvalidArgument("the header comes first")
        return file_pb2.UploadFileResponse()

    async def DownloadFile(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, request: file_pb2.DownloadFileRequest, context: _Context
    ) -> None:
        for _ in range(request.length_bytes):
            await context.write(file_pb2.DownloadFileResponse(chunk=b"x"))
        if request.path == "missing":
            raise NotFound("there is no such file")


class Sample:
    """The component: lives through the steps that `serve` takes it, and notes them."""

    def __init__(self, name: str = "sample", policy: Policy = POLICY) -> None:
        self.name = name
        self.policy = policy
        self.seen = Seen()
        self.steps: list[str] = []
        self.failure: Exception | None = None

    def register(self, server: grpc.aio.Server) -> None:
        self.steps.append("register")
        # What they leave out answers UNIMPLEMENTED, as it does for a service of an older version.
        turns, execs, files = (cast("Any", kind) for kind in (Turns, Execs, Files))
        turn_pb2_grpc.add_TurnServiceServicer_to_server(turns(self.seen), server)
        exec_pb2_grpc.add_ExecServiceServicer_to_server(execs(), server)
        file_pb2_grpc.add_FileServiceServicer_to_server(files(), server)

    async def run(self) -> None:
        self.steps.append("run")
        if self.failure is not None:
            raise self.failure
        try:
            await asyncio.Event().wait()
        finally:
            self.steps.append("cancelled")

    async def drain(self) -> None:
        self.steps.append("drain")

    async def __aenter__(self) -> Self:
        self.steps.append("enter")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.steps.append("exit")


class Counter:
    """Keeps the calls that it is told of."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.begun: list[str] = []

    def started(self, method: str) -> None:
        self.begun.append(method.rpartition("/")[2])

    def observe(self, method: str, status: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        self.calls.append((method.rpartition("/")[2], status))


@dataclass(frozen=True)
class Running:
    """A served component on a Unix socket, and the tokens of its callers."""

    sample: Sample
    server: Server
    counter: Counter
    tokens: Mapping[Identity, str]
    beside: InProcessServer | None = None
    """Where it is reached from, when that is its own process."""

    @property
    def seen(self) -> Seen:
        return self.sample.seen

    @property
    def address(self) -> Address:
        return self.server.addresses[0]

    def channels(self, identity: Identity = Identity.GATEWAY) -> Channels:
        place = self.beside or self.address
        return Channels(identity, {"agent": place}, token=self.tokens[identity])


@asynccontextmanager
async def running(folder: Path, *, beside: bool = False) -> AsyncGenerator[Running, None]:
    """Serves the sample component on a Unix socket in a folder, or to this process beside it."""
    sample, counter, tokens = Sample(), Counter(), new_tokens()
    listen = ListenOptions((UnixAddress(folder / "hermes.sock"),), tokens=tokens)
    async with Server([sample], listen, counter) as server:
        await server.start()
        yield Running(sample, server, counter, tokens, listen.in_process if beside else None)


def turns(channels: Channels) -> turn_pb2_grpc.TurnServiceStub:
    """Returns the client of the sample's turns."""
    return turn_pb2_grpc.TurnServiceStub(channels.to("agent"))


def watched(sequence: int, text: str) -> turn_pb2.WatchTurnResponse:
    """Returns a message of WatchTurn."""
    message = turn_pb2.WatchTurnResponse()
    event = message.events.add(sequence=sequence)
    event.text_delta.text = text
    return message
