"""The server as tests use it: a process of its own, told what to do."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from executor_service.config import ModalConfig
from tests.architecture.source import ROOT
from tests.fakes.modal.cloud import TOKEN

_END_DEADLINE_S = 20


@dataclass(slots=True)
class ModalService:
    """A running server."""

    url: str
    obstacle: str
    """Why it cannot run sandboxes on this machine; empty if it can."""
    token: tuple[str, str]
    """Its id and its secret."""
    _process: Process
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def environ(self) -> dict[str, str]:
        """The settings of an executor that has an account of it."""
        return {
            "MODAL_TOKEN_ID": self.token[0],
            "MODAL_TOKEN_SECRET": self.token[1],
            "HERMES_MODAL_SERVER_URL": self.url,
        }

    def config(self, **changes: Any) -> ModalConfig:
        """The settings of its account."""
        known = {"token_id": self.token[0], "token_secret": self.token[1], "server_url": self.url}
        return ModalConfig.model_validate({**known, **changes})

    async def ask(self, **wish: object) -> dict[str, Any]:
        """Have it do something; what it has then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._asking:
            self._process.stdin.write(json.dumps(wish).encode() + b"\n")
            return json.loads(await self._process.stdout.readline())

    async def fail(self, call: str, status: str, times: int = 1000, after: bool = False) -> None:
        """Have a call fail so many times; or, `after`, be done and its answer be lost."""
        await self.ask(fail=call, status=status, times=times, after=after)

    async def living(self) -> dict[str, dict[str, str]]:
        """Tags of all sandboxes that run, by their ids."""
        return (await self.ask())["living"]


@asynccontextmanager
async def modal_service(folder: Path) -> AsyncGenerator[ModalService]:
    """A server for the time of the block; nothing that it has started is left afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.modal", str(folder)),
        stdin=PIPE,
        stdout=PIPE,
        cwd=ROOT,
        limit=1 << 22,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = json.loads(await process.stdout.readline())
        yield ModalService(said["url"], said["obstacle"], TOKEN, process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(_END_DEADLINE_S):
            await process.wait()
