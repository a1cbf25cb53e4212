"""Hermes as it is measured: its own process, default settings, a home on disk."""

import asyncio
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import grpc.aio
import httpx

from services.cli.process import ALL, token_file
from services.config.settings import load_settings
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from tests.bench.figures import BenchError, NotReady
from tests.bench.sandboxes import release_all
from tests.e2e.deployment import Server
from tests.e2e.home import Home
from tests.support.ports import free_port

_WARM_TIMEOUT_S = 60.0
_WARM_POLL_S = 0.05
_READY_BOXES = re.compile(r'^hermes_sandbox_pool\{[^}]*state="ready"[^}]*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Started:
    """A process of `hermes up` that is ready."""

    pid: int
    ready_s: float
    """From its start to its line that it is ready."""
    metrics_url: str

    async def until_warm(self) -> None:
        """Return once a sandbox is ready for whoever comes."""
        async with httpx.AsyncClient() as client, asyncio.timeout(_WARM_TIMEOUT_S):
            while True:
                metrics = (await client.get(self.metrics_url)).text
                if any(float(ready) >= 1 for ready in _READY_BOXES.findall(metrics)):
                    return
                await asyncio.sleep(_WARM_POLL_S)


@dataclass(frozen=True, slots=True)
class Hermes:
    """A running Hermes, and an operator's channels to it."""

    started: Started
    channels: Channels


@asynccontextmanager
async def hermes(home: Path, model_url: str, **variables: str) -> AsyncGenerator[Hermes]:
    """Run Hermes until the context is left; its sandboxes end with it."""
    async with started(home, model_url, **variables) as serving, _operator(home) as channels:
        await serving.until_warm()
        try:
            yield Hermes(serving, channels)
        finally:
            # Where it has failed, what failed is of interest.
            with suppress(grpc.aio.AioRpcError):
                await release_all(channels)


def _operator(home: Path) -> Channels:
    paths = load_settings({"home": str(home)}).home
    token = token_file(paths).read_text(encoding="ascii").strip()
    addresses = dict.fromkeys(ALL, f"unix:{paths.socket}")
    return Channels(Identity.OPERATOR, addresses, token=token)


def home_at(folder: Path, model_url: str, **variables: str) -> Home:
    """A home with a model, and all other settings at their defaults."""
    model = {"HERMES_BASE_URL": model_url, "HERMES_API_KEY": "bench", "HERMES_MODEL": "scripted"}
    return Home(folder, {"HERMES_SKILLS_BUNDLED": "true", **model, **variables}, forks=False)


@asynccontextmanager
async def started(home: Path, model_url: str, **variables: str) -> AsyncGenerator[Started]:
    """Run the process of `hermes up` until the context is left."""
    port = free_port()
    up = ("up", "--no-chat", "--metrics-port", str(port))
    server = Server("up", home_at(home, model_url, **variables), *up)
    async with serving(server) as ready_s:
        yield Started(server.pid, ready_s, f"http://127.0.0.1:{port}/metrics")


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[float]:
    """Run a process until the context is left; gives the seconds until it was ready."""
    begun = perf_counter()
    await asyncio.to_thread(server.start)
    try:
        try:
            await asyncio.to_thread(server.wait_ready)
        except AssertionError as error:
            raise NotReady(str(error)) from None
        yield perf_counter() - begun
        await asyncio.to_thread(server.stop)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{server.name} did not stop when it was told to") from None
    finally:
        await asyncio.to_thread(server.kill)
