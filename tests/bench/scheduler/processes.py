"""Schedulers and an agent as processes of their own, with a model that answers at once."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from services import certs
from services.auth import Identity
from tests.bench.figures import NotReady
from tests.bench.hermes import HERMES, environment, stop
from tests.fakes.model_script import Script
from tests.fakes.model_server import Exchange, ModelServer
from tests.ports import free_port

POSTGRES = {
    # What a server has where nobody says otherwise, and the times of its commits.
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "128MB",
    "track_commit_timestamp": "on",
}

_INSTANT = {"rules": [{"steps": [{"text": "That is done."}]}]}
_ASKED = re.compile(rb"This is ([a-z]+[0-9]+)\.")
_SAYING = 'log=$1; shift; exec "$@" 2>"$log"'
_READY_TIMEOUT_S = 60.0
_POLL_S = 0.005


def prompt_of(job_id: str) -> str:
    """What a job asks, by which the model counts who has asked it."""
    return f"This is {job_id}."


class Service:
    """`hermes serve …`, which may be killed and started again."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self.ready_s = 0.0
        """From its last start to its line that it is ready."""
        self.is_ready = False
        self._environ = environ
        self._starts = 0
        self._process: Process | None = None

    @property
    def instance(self) -> str:
        """By what name it holds leases."""
        return self._environ["HERMES_INSTANCE"]

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and return once it is ready."""
        begun = perf_counter()
        self._starts += 1
        command = (HERMES, "serve", self.name)
        self._process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _SAYING, "sh", str(self._log), *command),
            stdin=DEVNULL,
            stdout=DEVNULL,
            env=self._environ,
        )
        while "ready on " not in (said := await self.said()):
            if self._process.returncode is not None or perf_counter() - begun > _READY_TIMEOUT_S:
                raise NotReady(f"the {self.name} is not ready: {said[-2000:]}")
            await asyncio.sleep(_POLL_S)
        self.ready_s = perf_counter() - begun
        self.is_ready = True

    async def kill(self) -> None:
        """End it as a crash does."""
        self.is_ready = False
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """Have it end as an operator does."""
        if self._process is not None:
            await stop(self._process, f"the {self.name}")

    async def said(self) -> str:
        """All that it has written since its last start."""
        return await asyncio.to_thread(_text_of, self._log)

    @property
    def _log(self) -> Path:
        return Path(f"{self._environ['HERMES_HOME']}.{self._starts}.log")


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


@dataclass(frozen=True, slots=True)
class Site:
    """What the services of a bench share."""

    folder: Path
    database_url: str
    model_url: str = "http://127.0.0.1:9/v1"
    agent_address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")

    def issue(self) -> None:
        """Make the certificates by which the services know each other."""
        now = datetime.now(UTC)
        certs.init(self._pki, now)
        for identity in (Identity.AGENT, Identity.SCHEDULER):
            certs.issue(self._pki, identity, ["127.0.0.1"], now)

    def agent(self) -> Service:
        """The agent, with its defaults."""
        return self._service("agent", "agent", HERMES_LISTEN=self.agent_address)

    def scheduler(self, instance: str) -> Service:
        """A scheduler, with its defaults."""
        return self._service("scheduler", instance, HERMES_LISTEN="127.0.0.1:0")

    @property
    def _pki(self) -> Path:
        return self.folder / "pki"

    def _service(self, name: str, instance: str, **variables: str) -> Service:
        files = certs.files_of(self._pki, Identity(name))
        return Service(
            name,
            environment(
                self.folder / instance,
                self.model_url,
                HERMES_INSTANCE=instance,
                HERMES_DATABASE_URL=self.database_url,
                HERMES_AGENT_ADDRESS=self.agent_address,
                HERMES_TLS_CA=str(files.ca),
                HERMES_TLS_CERTIFICATE=str(files.certificate),
                HERMES_TLS_KEY=str(files.key),
                HERMES_METRICS_PORT="0",
                HERMES_LOG_LEVEL="warning",
                **variables,
            ),
        )


@asynccontextmanager
async def instant_model() -> AsyncGenerator[tuple[str, Counter[str]]]:
    """Run a model that answers at once; gives its URL, and how often it was asked by which job."""
    asked: Counter[str] = Counter()

    def observe(exchange: Exchange) -> None:
        # What the user has said comes last, behind instructions and tools.
        if exchange.method == "POST" and not exchange.outcome:
            asked.update(found.decode() for found in set(_ASKED.findall(exchange.body)))

    async with ModelServer(Script.parse(_INSTANT), observe).listen() as url:
        yield url, asked
