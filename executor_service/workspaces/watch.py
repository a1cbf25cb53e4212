"""Holding sandboxes to the size of their workspace, where nothing below the executor does."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from executor_service.backends.base import Enforcement
from executor_service.leases import Leases
from executor_service.link import ExitReason
from executor_service.sandbox import Sandbox
from executor_service.supervisor.trees import measure
from executor_service.templates import Templates
from executor_service.workspaces.folders import Workspaces
from services.errors import LimitExceeded

_INTERVAL_S = 2.0
_SHARE_OF_TIME = 0.05
"""How much of the time may be spent on looking."""
_TOO_DEEP = (
    "the workspace has folders too deep inside each other for anybody to tell what they take; "
    "remove them first"
)

_log = logging.getLogger(__name__)


class WorkspaceWatch:
    """Looks every few seconds how large the workspaces are to which something is written."""

    def __init__(self, leases: Leases, workspaces: Workspaces, templates: Templates) -> None:
        self._leases = leases
        self._workspaces = workspaces
        self._templates = templates
        self._writers: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)
        """What is written from outside, by the sandbox."""

    async def run(self) -> None:
        """Ends what writes to workspaces that are over the limit, until cancelled."""
        pause_s = _INTERVAL_S
        while True:
            await asyncio.sleep(pause_s)
            started = time.monotonic()
            for sandbox in self._leases:
                if sandbox.running or sandbox.claim.sandbox_id in self._writers:
                    await self._look(sandbox)
            pause_s = max(_INTERVAL_S, (time.monotonic() - started) / _SHARE_OF_TIME)

    @asynccontextmanager
    async def writing(self, sandbox: Sandbox, path: str, length: int) -> AsyncGenerator[None]:
        """Holds what is written from outside to the limit, for the time of the block.

        Fails with LimitExceeded when there is no room for it, or no more.
        """
        most_bytes = self._limit_of(sandbox)
        if most_bytes is None:
            yield
            return
        workspace, ident = Path(sandbox.claim.workspace), sandbox.claim.sandbox_id
        if not path.startswith("/") or f"{path}/".startswith("/workspace/"):
            used, is_all = await asyncio.to_thread(measure, workspace, most_bytes)
            if not is_all and used <= most_bytes:
                raise LimitExceeded(_TOO_DEEP)
            if used + length > most_bytes:
                raise _full(most_bytes)
        writer = asyncio.timeout(None)
        try:
            async with writer:
                self._writers[ident].add(writer)
                try:
                    yield
                finally:
                    self._writers[ident].discard(writer)
                    if not self._writers[ident]:
                        del self._writers[ident]
        except TimeoutError:
            if not writer.expired():
                raise
            raise _full(most_bytes) from None

    async def _look(self, sandbox: Sandbox) -> None:
        most_bytes = self._limit_of(sandbox)
        if most_bytes is None:
            return
        if await asyncio.to_thread(is_larger, Path(sandbox.claim.workspace), most_bytes):
            ident = sandbox.claim.sandbox_id
            _log.warning("sandbox %s has filled its workspace", ident)
            for command in sandbox.running:
                command.cancel(ExitReason.DISK_QUOTA)
            for writer in self._writers.get(ident, set[asyncio.Timeout]()):
                if not writer.expired():
                    writer.reschedule(asyncio.get_running_loop().time())

    def _limit_of(self, sandbox: Sandbox) -> int | None:
        """How large its workspace may be; None where that is not looked at here."""
        if sandbox.live is None or not self._workspaces.is_ours(Path(sandbox.claim.workspace)):
            return None
        template = self._templates.of(sandbox.live.box)
        if template.capabilities.limits.workspace is not Enforcement.WATCHED:
            return None
        return template.limits.workspace_bytes


def is_larger(folder: Path, most_bytes: int) -> bool:
    """Whether a folder's content takes more than so many bytes, or is too deep to look at."""
    return not measure(folder, most_bytes)[1]


def _full(most_bytes: int) -> LimitExceeded:
    return LimitExceeded(
        f"the workspace has no room for this: it may take {most_bytes} bytes "
        "(executor.workspace_bytes); remove something first"
    )
