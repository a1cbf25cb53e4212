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
    """Which folders of the host may be bound instead."""

    allowed: bool
    home: Path
    """Where Hermes keeps its keys; neither it nor anything around or inside it."""
    user_home: Path


class Workspaces:
    """The sessions' folders, below one folder of the home."""

    def __init__(self, folder: Path, policy: WorkdirPolicy, *, shared: bool = False) -> None:
        self.folder = folder
        """What they are below."""
        self._policy = policy
        self.is_shared = shared
        """Whether other executors have the same, so that what nobody has here may be theirs."""
        self.unclaimed: set[Path] = set()
        """Those that were made for boxes which no session has yet."""
        self._stale: defaultdict[str, set[Path]] = defaultdict(set)

    def is_ours(self, path: Path) -> bool:
        """Whether a folder is a session's, and not one of the host that was bound instead."""
        return path.parent == self.folder

    async def fresh(self) -> Path:
        """Makes an empty folder."""
        path = self.folder / new_id(_PREFIX)
        self.unclaimed.add(path)
        await asyncio.to_thread(_make, path)
        return path

    async def restore(self, path: Path) -> Path:
        """Makes sure that a session's folder is there; it is empty if somebody removed it."""
        await asyncio.to_thread(_make, path)
        return path

    async def discard(self, path: Path, backend: Backend) -> None:
        """Removes the folder of a box that nobody had; what has content is a session's.

        What stands for it elsewhere is noted, for somebody to remove it there.
        """
        if not self.is_ours(path):
            return
        await asyncio.to_thread(_remove_empty, path)
        store = store_elsewhere(backend)
        if store is not None:
            self._stale[store.place].add(path)
        self.unclaimed.discard(path)

    def take_stale(self) -> Mapping[str, set[Path]]:
        """Those that were noted since the last time, by the places where they are."""
        stale, self._stale = self._stale, defaultdict(set)
        return stale

    async def sweep(self, kept: Container[Path]) -> None:
        """Removes folders that no session has; what has content stays, whoever left it."""
        if self.is_shared:
            return

        def sweep() -> None:
            for path in self.folder.glob(f"{_PREFIX}_*"):
                if path not in kept:
                    _remove_empty(path)

        await asyncio.to_thread(sweep)

    async def workdir(self, asked: str, place: WorkspacePlace) -> Path:
        """Vets a folder of the host that a caller wants bound; fails with PathInvalid."""
        if not self._policy.allowed:
            raise _refused("this executor binds no folders of its host (executor.allow_workdir)")
        if place is not WorkspacePlace.HERE:
            raise _refused("cannot be a folder of this machine: the sandboxes are elsewhere")
        return await asyncio.to_thread(_vet, asked, self._policy)


def is_workspace_id(text: str) -> bool:
    """Whether it is the name of a workspace as executors make them."""
    return _ID.fullmatch(text) is not None


def _make(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _remove_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def _vet(asked: str, policy: WorkdirPolicy) -> Path:
    if not asked.startswith("/") or "\0" in asked:
        raise _refused("must be an absolute path")
    # What is bound is what the path leads to now, whatever links it consists of.
    path = Path(os.path.realpath(asked))
    if not path.is_dir():
        raise _refused("is not a folder")
    if why := why_not(path, policy.home, policy.user_home):
        raise _refused(f"may not be {why}")
    return path


def _refused(why: str) -> PathInvalid:
    return PathInvalid(f"workdir {why}", fields={"workdir": why})
