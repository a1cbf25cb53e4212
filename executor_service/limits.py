"""Holding sandboxes to the size of their workspace, where nothing below the executor does."""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from executor_service.backends.base import Enforcement
from executor_service.leases import Leases
from executor_service.link import ExitReason
from executor_service.sandbox import Sandbox
from executor_service.templates import Templates
from executor_service.workspaces import Workspaces

_INTERVAL_S = 2.0
_SHARE_OF_TIME = 0.05
"""How much of the time may be spent on looking."""
_DEEPEST = 200
_BLOCK_BYTES = 512
_BYTES_OF_AN_ENTRY = 256
"""What a file costs besides its content, so that empty ones are counted too."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_log = logging.getLogger(__name__)


class WorkspaceWatch:
    """Looks every few seconds how large the workspaces are in which something runs."""

    def __init__(self, leases: Leases, workspaces: Workspaces, templates: Templates) -> None:
        self._leases = leases
        self._workspaces = workspaces
        self._templates = templates

    async def run(self) -> None:
        """Ends the commands of sandboxes that are over the limit, until cancelled."""
        pause_s = _INTERVAL_S
        while True:
            await asyncio.sleep(pause_s)
            started = time.monotonic()
            for sandbox in self._leases:
                if sandbox.running:
                    await self._look(sandbox)
            pause_s = max(_INTERVAL_S, (time.monotonic() - started) / _SHARE_OF_TIME)

    async def _look(self, sandbox: Sandbox) -> None:
        workspace = Path(sandbox.claim.workspace)
        if sandbox.live is None or not self._workspaces.is_ours(workspace):
            return
        template = self._templates.of(sandbox.live.box)
        if template.capabilities.limits.workspace is not Enforcement.WATCHED:
            return
        if await asyncio.to_thread(is_larger, workspace, template.limits.workspace_bytes):
            _log.warning("sandbox %s has filled its workspace", sandbox.claim.sandbox_id)
            for command in sandbox.running:
                command.cancel(ExitReason.DISK_QUOTA)


def is_larger(folder: Path, most_bytes: int) -> bool:
    """Whether a folder's content takes more than so many bytes, or is too deep to look at.

    Whoever fills it may change it meanwhile: links are not followed, and folders are opened in
    the ones that they are in.
    """
    try:
        root = os.open(folder, _FOLDER_FLAGS)
    except OSError:
        return False
    used, stack = 0, [(root, iter(_entries(root)))]
    try:
        while stack:
            parent, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                os.close(stack.pop()[0])
                continue
            used += _BYTES_OF_AN_ENTRY
            try:
                status = entry.stat(follow_symlinks=False)
                used += status.st_blocks * _BLOCK_BYTES
                if stat.S_ISDIR(status.st_mode):
                    child = os.open(entry.name, _FOLDER_FLAGS, dir_fd=parent)
                    stack.append((child, iter(_entries(child))))
            except OSError:
                continue
            if used > most_bytes or len(stack) > _DEEPEST:
                return True
        return False
    finally:
        for fd, _ in stack:
            os.close(fd)


def _entries(fd: int) -> Iterable[os.DirEntry[str]]:
    with os.scandir(fd) as scan:
        yield from scan
