"""Hermes as it is measured: its own process, default settings, a home on disk."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import grpc.aio
import httpx

from services.auth import Identity
from services.channels import Channels
from services.cli.process import ALL, token_file
from services.config import load_settings
from tests.bench.figures import BenchError, NotReady
from tests.bench.sandboxes import release_all
from tests.ports import free_port

HERMES = Path(sys.executable).with_name("hermes")

_READY = b"ready on "
_READY_TIMEOUT_S = 60.0
_WARM_TIMEOUT_S = 60.0
_WARM_POLL_S = 0.05
_STOP_TIMEOUT_S = 40.0
_LINES_KEPT = 20
_READY_BOXES = re.compile(r'^hermes_sandbox_pool\{[^}]*state="ready"[^}]*\} (\S+)$', re.MULTILINE)
# Somebody else's settings of Hermes; and a start that compiles all modules again is not a user's.
_LEFT_OUT = re.compile(r"HERMES_.*|.*_API_KEY|.*_BASE_URL|PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class Started:
    """A process of `hermes up` that is ready."""

    process: Process
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


@asynccontextmanager
async def started(home: Path, model_url: str, **variables: str) -> AsyncGenerator[Started]:
    """Run the process of `hermes up` until the context is left."""
    port = free_port()
    command = ("up", "--no-chat", "--metrics-port", str(port))
    begun = perf_counter()
    process = await spawn(command, environment(home, model_url, **variables))
    lines: deque[str] = deque(maxlen=_LINES_KEPT)
    reading: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            await _until_ready(process, lines)
        ready_s = perf_counter() - begun
        reading = asyncio.create_task(_read_on(process, lines))
        yield Started(process, ready_s, f"http://127.0.0.1:{port}/metrics")
    except TimeoutError as error:
        raise BenchError(f"hermes up: too late after: {''.join(lines)}") from error
    finally:
        await stop(process, "hermes up")
        if reading is not None:
            await reading


async def run(arguments: Sequence[str], environ: Mapping[str, str]) -> float:
    """Run a command of Hermes to its end; returns the seconds from exec to exit."""
    begun = perf_counter()
    process = await spawn(arguments, environ)
    _, complaints = await process.communicate()
    took_s = perf_counter() - begun
    if process.returncode != 0:
        command = " ".join(arguments)
        raise BenchError(f"hermes {command}: status {process.returncode}: {complaints.decode()}")
    return took_s


async def spawn(arguments: Sequence[str], environ: Mapping[str, str]) -> Process:
    """Start a command of Hermes."""
    return await asyncio.create_subprocess_exec(
        HERMES, *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environ
    )


def environment(home: Path, model_url: str, **variables: str) -> dict[str, str]:
    """Return an environment with a home and a model, and all other settings at their defaults."""
    return {
        **{name: value for name, value in os.environ.items() if not _LEFT_OUT.fullmatch(name)},
        "HERMES_HOME": str(home),
        "HERMES_BASE_URL": model_url,
        "HERMES_API_KEY": "bench",
        "HERMES_MODEL": "scripted",
        **variables,
    }


async def _until_ready(process: Process, lines: deque[str]) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        lines.append(line.decode(errors="replace"))
        if _READY in line:
            return
    raise NotReady("".join(lines).strip())


async def _read_on(process: Process, lines: deque[str]) -> None:
    assert process.stderr is not None
    async for line in process.stderr:
        lines.append(line.decode(errors="replace"))


async def stop(process: Process, name: str) -> None:
    """Have a process end as an operator does; fails when it does not."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise BenchError(f"{name} did not stop when it was told to") from None
