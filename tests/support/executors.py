"""A real executor on a Unix socket for tests, and a client that does with it what agents do.

`python -m tests.support.executors ENVIRON SOCKET` serves one in a process of its own, with the
tokens that it reads from standard input.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from executor_service.app import ExecutorService, build
from executor_service.backends import BACKENDS, Site
from executor_service.backends.base import Backend
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import ExecutorConfig
from executor_service.errors import BackendUnavailable, JournalUnusable
from executor_service.journal import Journal
from executor_service.metrics import ExecutorMetrics
from executor_service.network.gate import Gate
from services.config.settings import Settings, load_settings
from services.errors import Reason, reason_of
from services.lifecycle import Workers
from services.rpc.addresses import Address, UnixAddress
from services.rpc.auth import Identity, Tokens, new_tokens
from services.rpc.channels import Channels
from services.runtime.server import ListenOptions, Server, serve
from services.telemetry.metrics import Meter
from tests.fakes.component import Counter
from tests.support.executor_client import Client
from tests.support.forks import Forked, Program
from tests.support.requirements import require


def executor_settings(home: Path, backend: str, **environ: str) -> Settings:
    """The settings of an executor: small, and with nothing made ready unless asked for."""
    usual = {
        "HOME": "/nonexistent",
        "HERMES_HOME": str(home),
        "HERMES_BACKEND": backend,
        "HERMES_WARM_POOL_SIZE": "0",
        "HERMES_KEEP_SANDBOXES": "false",
    }
    return load_settings({}, {**usual, **environ})


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that serves."""

    service: ExecutorService
    home: Path
    address: Address
    tokens: Tokens
    registry: CollectorRegistry
    calls: Counter

    @asynccontextmanager
    async def client(
        self, identity: Identity = Identity.AGENT, profile: str = ""
    ) -> AsyncGenerator[Client]:
        """A client of some identity, for things of some profile."""
        async with open_client(self.address, self.tokens, identity, profile) as client:
            yield client

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def open_client(
    address: Address, tokens: Tokens, identity: Identity = Identity.AGENT, profile: str = ""
) -> AsyncGenerator[Client]:
    """A client of the executor at an address."""
    async with Channels(identity, {"executor": address}, token=tokens[identity]) as channels:
        yield Client(channels.to("executor"), profile)


@asynccontextmanager
async def serving(settings: Settings, gate: Gate | None = None) -> AsyncGenerator[Executor]:
    """An executor in this process; skipped where its backend cannot be used."""
    await asyncio.to_thread(settings.home.create)
    registry, tokens = CollectorRegistry(), new_tokens()
    address = UnixAddress(settings.home.socket)
    if gate is None:
        service = build(settings, Channels(Identity.EXECUTOR, {}), Meter(registry))
    else:
        config, metrics = settings.load(ExecutorConfig), ExecutorMetrics.create(Meter(registry))
        service = ExecutorService(config, settings.home, metrics, gate)
    try:
        await service.__aenter__()
    except BackendUnavailable as error:
        require(settings.environ["HERMES_BACKEND"], False, error.message)
    try:
        async with (
            Server(
                [service], ListenOptions((address,), tokens=tokens), calls := Counter()
            ) as server,
            Workers() as work,
        ):
            await server.start()
            work.start("executor", service.run())
            yield Executor(service, settings.home.root, address, tokens, registry, calls)
            await service.drain()
    finally:
        await service.__aexit__(None, None, None)


@asynccontextmanager
async def started(home: Path, **environ: str) -> AsyncGenerator[tuple[Executor, Client]]:
    """An executor and an agent, and at the end no box."""
    settings = executor_settings(home, "bubblewrap", **environ)
    try:
        async with serving(settings) as executor, executor.client() as client:
            yield executor, client
    finally:
        await end_boxes(settings)


@asynccontextmanager
async def backend_of(settings: Settings) -> AsyncGenerator[Backend]:
    """The backend of an executor that does not run."""
    folder = settings.home.state / "executor"
    async with Journal(folder / "journal.db") as journal:
        owner = journal.owner
    zipapp = await asyncio.to_thread(build_zipapp)
    config = settings.load(ExecutorConfig)
    site = Site(owner, folder, zipapp, config, settings.home.workspaces)
    backend = BACKENDS[settings.environ["HERMES_BACKEND"]](site)
    try:
        yield backend
    finally:
        await backend.close()


async def end_boxes(settings: Settings) -> None:
    """Ends every box that an executor with these settings has left."""
    async with backend_of(settings) as backend:
        with suppress(BackendUnavailable):  # its tests were skipped
            for box in await backend.list_boxes():
                await backend.destroy(box)


async def refused(call: Awaitable[object]) -> Reason:
    """Why a call failed, which it must."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return reason_of(caught.value)


async def until(
    condition: Callable[[], object], timeout_s: float = 20, pause_s: float = 0.01
) -> None:
    """Waits for something that has no better way to be noticed; to look at it may be awaited."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = condition()
            if (await found) if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(pause_s)


class Process:
    """An executor in a process of its own."""

    def __init__(
        self, settings: Settings, socket: str = "hermes.sock", tokens: Tokens | None = None
    ) -> None:
        self.settings = settings
        self.tokens = new_tokens() if tokens is None else tokens
        self.address = UnixAddress(settings.home.run / socket)
        self.program: tuple[str, ...] = ("tests.support.executors",)
        """The module that serves, and its own arguments."""
        self.python: tuple[str, ...] = (sys.executable,)
        """What runs it, and as whom; a Python of ours may be forked."""
        self._process: asyncio.subprocess.Process | Forked | None = None

    async def __aenter__(self) -> Self:
        line = await self._start()
        if line != "ready":
            await self.kill()
        require(self.settings.environ["HERMES_BACKEND"], line == "ready", line)
        return self

    async def refusal(self) -> str:
        """Why it does not start."""
        line = await self._start()
        await self.kill()
        return line

    async def _start(self) -> str:
        """Its first line."""
        environ, tokens = json.dumps(dict(self.settings.environ)), json.dumps(self.tokens)
        arguments = (*self.program, environ, str(self.address.path))
        if self.python == (sys.executable,):
            module, *rest = arguments
            process = self._process = await Forked.start(Program(module, tuple(rest), tokens))
        else:
            process = self._process = await asyncio.create_subprocess_exec(
                *(*self.python, "-m", *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None
            process.stdin.write(tokens.encode() + b"\n")
        assert process.stdout is not None
        return (await process.stdout.readline()).decode().strip()

    async def __aexit__(self, *_error: object) -> None:
        await self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Ends it at once, if it runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def stop(self) -> int:
        """Has it stop as an operator does; its exit status."""
        assert self._process is not None
        self._process.terminate()
        return await self._process.wait()

    @asynccontextmanager
    async def client(
        self, identity: Identity = Identity.AGENT, profile: str = ""
    ) -> AsyncGenerator[Client]:
        """A client of it."""
        async with open_client(self.address, self.tokens, identity, profile) as client:
            yield client


async def _main(environ: dict[str, str], socket: Path) -> None:
    settings = load_settings({}, environ)
    settings.home.create()
    tokens = {Identity(name): token for name, token in json.loads(sys.stdin.readline()).items()}
    service = build(settings, Channels(Identity.EXECUTOR, {}), Meter(CollectorRegistry()))
    listen = ListenOptions((UnixAddress(socket),), tokens=tokens)
    try:
        await serve([service], listen, ready=_say_ready)
    except (BackendUnavailable, JournalUnusable) as error:
        print(error.message, flush=True)


async def _say_ready(_addresses: tuple[Address, ...]) -> None:
    print("ready", flush=True)


def main() -> None:
    """Serves one executor until it is told to stop."""
    asyncio.run(_main(json.loads(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()
