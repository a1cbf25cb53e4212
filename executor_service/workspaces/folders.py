"""The folders that sandboxes see as /workspace: one a session, kept when its sandbox ends."""

import asyncio
import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Container, Mapping
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Backend, WorkspacePlace, store_elsewhere
from executor_service.errors import PathInvalid
from services.home.workdirs import why_not
from services.ids import new_id

_PREFIX = "wsp"
_ID = re.compile(rf"{_PREFIX}_[0-9a-v]{{26}}")


class WorkdirPolicy(Struct, frozen=True):
    """Which folders of the host may be bound as a workspace."""

    allowed: bool
    home: Path
    """Hermes's home with its keys: neither it nor a folder around or inside it may be bound."""
    user_home: Path


class Workspaces:
    """The sessions' folders, below one folder of the home."""

    def __init__(self, folder: Path, policy: WorkdirPolicy, *, shared: bool = False) -> None:
        self.folder = folder
        self._policy = policy
        self.is_shared = shared
        """Whether other executors use the same workspaces."""
        self._stale: defaultdict[str, set[Path]] = defaultdict(set)

    def is_ours(self, path: Path) -> bool:
        return path.parent == self.folder

    async def fresh(self) -> Path:
        path = self.folder / new_id(_PREFIX)
        await asyncio.to_thread(_make, path)
        return path

    async def restore(self, path: Path) -> Path:
        """Makes a session's folder again if it was removed."""
        await asyncio.to_thread(_make, path)
        return path

    async def discard(self, path: Path, backend: Backend) -> None:
        """Removes an unclaimed box's empty folder, and notes a remote one for the collector."""
        if not self.is_ours(path):
            return
        await asyncio.to_thread(_remove_empty, path)
        store = store_elsewhere(backend)
        if store is not None:
            self._stale[store.place].add(path)

    def take_stale(self) -> Mapping[str, set[Path]]:
        """Returns the noted workspaces of remote stores, by place, and forgets them."""
        stale, self._stale = self._stale, defaultdict(set)
        return stale

    async def sweep(self, kept: Container[Path]) -> None:
        """Removes empty folders without a record."""
        if self.is_shared:
            return

        def sweep() -> None:
            for path in self.folder.glob(f"{_PREFIX}_*"):
                if path not in kept:
                    _remove_empty(path)

        await asyncio.to_thread(sweep)

    async def workdir(self, asked: str, place: WorkspacePlace) -> Path:
        """Checks a folder of the host that a caller wants to bind; fails with PathInvalid."""
        if not self._policy.allowed:
            raise _refused("this executor binds no folders of its host (executor.allow_workdir)")
        if place is not WorkspacePlace.HERE:
            raise _refused("cannot be a folder of this machine: the sandboxes are elsewhere")
        return await asyncio.to_thread(_vet, asked, self._policy)


def is_workspace_id(text: str) -> bool:
    """Whether a text has the form of a workspace id."""
    return _ID.fullmatch(text) is not None


def _make(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _remove_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def _vet(asked: str, policy: WorkdirPolicy) -> Path:
    if not asked.startswith("/") or "\0" in asked:
        raise _refused("must be an absolute path")
    # Resolve links now: the result is what will be bound.
    path = Path(os.path.realpath(asked))
    if not path.is_dir():
        raise _refused("is not a folder")
    if why := why_not(path, policy.home, policy.user_home):
        raise _refused(f"may not be {why}")
    return path


def _refused(why: str) -> PathInvalid:
    return PathInvalid(f"workdir {why}", fields={"workdir": why})
