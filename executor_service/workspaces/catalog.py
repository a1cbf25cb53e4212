"""Which workspaces there are, and whether anybody is about to do something with one."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from executor_service.workspaces.rows import Workspace, WorkspaceKind, WorkspaceRows, WorkspaceState
from services.errors import LimitExceeded, NotFound


class Catalog:
    """The rows of all workspaces, and what is under way with them in this process.

    A workspace is held while something is made over it or copied from it, and closed while it is
    removed: never both. Both are known at once, without a wait in between.
    """

    def __init__(self, rows: WorkspaceRows, folder: Path, most_bytes: int) -> None:
        self.rows = rows
        self.folder = folder
        """What stands for each is below it."""
        self._most_bytes = most_bytes
        self._held: Counter[str] = Counter()
        self._closed: dict[str, asyncio.Event] = {}
        self.left: set[str] = set()
        """Those that may be empty by now, as nobody has looked since."""
        self.changed = asyncio.Event()
        """Set when there are such."""

    def path(self, workspace_id: str) -> Path:
        """What stands for a workspace when boxes are made and stores are asked."""
        return self.folder / workspace_id

    async def find(self, profile: str, workspace_id: str, kind: WorkspaceKind) -> Workspace:
        """Returns a profile's own; fails with NotFound, whether or not another has it."""
        found = await self.rows.get(workspace_id)
        if found is None or found.profile != profile or found.kind is not kind:
            raise NotFound(f"there is no {kind} {workspace_id}")
        return found

    async def check_room(self, profile: str) -> None:
        """Fails with LimitExceeded when a profile has no room for another one."""
        if not self._most_bytes:
            return
        usage = await self.rows.usage(profile)
        if usage.size_bytes >= self._most_bytes:
            raise LimitExceeded(
                f"the {usage.count} workspaces and snapshots of profile {profile} take "
                f"{usage.size_bytes} bytes, and may take {self._most_bytes} "
                "(executor.workspaces.total_bytes): delete some with hermes workspaces delete"
            )

    @asynccontextmanager
    async def lent(
        self, profile: str, session_id: str, place: str, workspace_id: str
    ) -> AsyncGenerator[Workspace | None]:
        """Holds the workspace that a session's next sandbox is to be over, for the time of the
        block; None if it gets a new one.

        Fails with NotFound if the one that is asked for is not there, or is elsewhere.
        """
        while True:
            if workspace_id:
                found = await self.find(profile, workspace_id, WorkspaceKind.WORKSPACE)
                if found.place != place or found.state is not WorkspaceState.READY:
                    where = "kept where sandboxes of this template are"
                    raise NotFound(f"there is no workspace {workspace_id} that is {where}")
            else:
                found = await self.rows.of_session(profile, session_id, place)
            if found is None:
                await self.check_room(profile)
                yield None
                return
            if closed := self._closed.get(found.workspace_id):
                await closed.wait()
                continue
            with self.held(found.workspace_id):
                yield found
                return

    @contextmanager
    def held(self, workspace_id: str) -> Generator[None]:
        """Keeps one from being removed; it must not be closed."""
        assert workspace_id not in self._closed, "it is being removed"
        self._held[workspace_id] += 1
        try:
            yield
        finally:
            self._held[workspace_id] -= 1
            if not self._held[workspace_id]:
                del self._held[workspace_id]

    @contextmanager
    def closed(self, *workspace_ids: str) -> Generator[None]:
        """Keeps anybody from beginning something with some; they must not be held."""
        assert not any(map(self.is_busy, workspace_ids)), "somebody has one of them"
        opened = asyncio.Event()
        self._closed |= dict.fromkeys(workspace_ids, opened)
        try:
            yield
        finally:
            for workspace_id in workspace_ids:
                del self._closed[workspace_id]
            opened.set()

    def is_busy(self, workspace_id: str) -> bool:
        """Whether one is held or closed now."""
        return self._held[workspace_id] > 0 or workspace_id in self._closed

    async def opened(self, workspace_id: str) -> Workspace:
        """One as it is when nobody has it closed, to be held or closed at once; NotFound if it has
        gone meanwhile."""
        while True:
            found = await self.rows.get(workspace_id)
            if closed := self._closed.get(workspace_id):
                await closed.wait()
            elif found is None:
                raise NotFound(f"there is no {workspace_id} any more")
            else:
                return found

    def leave(self, workspace_id: str) -> None:
        """Somebody has to look what a sandbox has left."""
        self.left.add(workspace_id)
        self.changed.set()
