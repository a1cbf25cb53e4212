"""The catalog of workspaces: their records, and which are in use or being removed."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

from msgspec import Struct, json
from msgspec.structs import replace

from executor_service.journal import Journal
from services.errors import LimitExceeded, NotFound
from services.validation import decode


class WorkspaceKind(StrEnum):
    """The kind of a workspace."""

    WORKSPACE = "workspace"
    SNAPSHOT = "snapshot"
    """A copy that no sandbox uses, so it never changes."""


class WorkspaceState(StrEnum):
    """Its state, recorded before the step that it names."""

    MAKING = "making"
    """It is an incomplete copy."""
    READY = "ready"
    REMOVING = "removing"
    """It is being removed and not used any more."""


class RemovalReason(StrEnum):
    """Why it was removed."""

    ASKED = "asked"
    EMPTY = "empty"
    """It was made for a session that left nothing in it."""
    RETENTION = "retention"
    UNFINISHED = "unfinished"
    """It is a copy that failed."""


class Workspace(Struct, frozen=True):
    """One workspace or snapshot."""

    workspace_id: str
    """Also the name of its folder."""
    kind: WorkspaceKind
    profile: str
    place: str
    """The place of its store."""
    template: str
    backend: str
    created_at: float
    """Seconds since 1970, as all times here that end in `_at`."""
    used_at: float
    """When a sandbox last started or ended on it, or it was last copied."""
    state: WorkspaceState = WorkspaceState.READY
    name: str = ""
    """The name that its owner gave it."""
    source_id: str = ""
    """The workspace that it is a copy of."""
    request_id: str = ""
    """The request that made it; empty if it was made for a session."""
    size_bytes: int | None = None
    """At the last measurement; None before it."""
    measured_at: float = 0.0
    reason: str = ""
    session_ids: tuple[str, ...] = ()
    """The sessions that use it for their next sandboxes."""

    @property
    def is_unmeasured(self) -> bool:
        return self.state is WorkspaceState.READY and self.used_at > self.measured_at

    def mark_removing(self, reason: RemovalReason) -> Self:
        return replace(self, state=WorkspaceState.REMOVING, reason=reason)

    def mark_kept(self) -> Self:
        """This workspace after a refused removal: ready again, unless it is a failed copy."""
        if self.reason == RemovalReason.UNFINISHED:
            return self
        return replace(self, state=WorkspaceState.READY, reason="")


class Catalog:
    """The records of all workspaces, and what this process is doing with them.

    A workspace is held while a sandbox is made over it or it is copied, and closed while it is
    removed, never both. Neither check awaits anything.
    """

    def __init__(self, journal: Journal, folder: Path, most_bytes: int) -> None:
        """The catalog is empty until it is loaded."""
        self.folder = folder
        """Contains a path for each workspace, which stands for it."""
        self._journal = journal
        self._most_bytes = most_bytes
        self._known: dict[str, Workspace] = {}
        self._by_session: dict[tuple[str, str, str], str] = {}
        """By profile, session and place, the id of the session's workspace."""
        self._writing = asyncio.Lock()
        self._held: Counter[str] = Counter()
        self._closed: dict[str, asyncio.Event] = {}
        self.unchecked: set[str] = set()
        """Workspaces that the collector has to check."""
        self.changed = asyncio.Event()

    async def load(self) -> None:
        query = "SELECT record FROM workspace"
        rows = await self._journal.read(lambda db: db.execute(query).fetchall())
        self._note([decode(record, Workspace) for (record,) in rows])

    def __iter__(self) -> Iterator[Workspace]:
        """All workspaces, longest unused first."""
        return iter(sorted(self._known.values(), key=lambda one: (one.used_at, one.workspace_id)))

    def get(self, workspace_id: str) -> Workspace | None:
        return self._known.get(workspace_id)

    async def put(self, workspace: Workspace) -> None:
        """Stores a workspace, but keeps its known sessions; synced."""
        async with self._writing:
            if known := self._known.get(workspace.workspace_id):
                # Only `assign` changes the sessions, perhaps since the caller looked.
                workspace = replace(workspace, session_ids=known.session_ids)
            await self._put([workspace], synced=True)

    async def change(self, workspace_id: str, **changes: object) -> None:
        """Changes fields of a workspace, if it still exists; not synced."""
        async with self._writing:
            if found := self._known.get(workspace_id):
                changed = replace(found, **changes)  # pyright: ignore[reportArgumentType]
                await self._put([changed], synced=False)

    async def assign(self, workspace: Workspace, session_id: str) -> None:
        """Replaces the session's workspace in this place; the claim that follows syncs it."""
        async with self._writing:
            known = self._known.get(workspace.workspace_id, workspace)
            sessions = tuple(sorted({*known.session_ids, session_id}))
            changed = [replace(workspace, session_ids=sessions)]
            place = (workspace.profile, session_id, workspace.place)
            before = self._known.get(self._by_session.get(place, ""))
            if before is not None and before.workspace_id != workspace.workspace_id:
                others = tuple(one for one in before.session_ids if one != session_id)
                changed.append(replace(before, session_ids=others))
            await self._put(changed, synced=False)

    async def forget(self, workspace_id: str) -> None:
        """Removes the record of a workspace that is gone."""
        async with self._writing:
            query = "DELETE FROM workspace WHERE workspace_id = ?"
            await self._journal.write(lambda db: db.execute(query, (workspace_id,)))
            gone = self._known.pop(workspace_id, None)
            for session_id in gone.session_ids if gone else ():
                assert gone is not None
                self._by_session.pop((gone.profile, session_id, gone.place), None)

    async def _put(self, workspaces: Sequence[Workspace], synced: bool) -> None:
        rows = [(one.workspace_id, json.encode(one).decode()) for one in workspaces]
        query = "REPLACE INTO workspace VALUES (?, ?)"
        await self._journal.write(lambda db: db.executemany(query, rows), synced)
        self._note(workspaces)

    def _note(self, workspaces: Iterable[Workspace]) -> None:
        for one in workspaces:
            self._known[one.workspace_id] = one
            for session_id in one.session_ids:
                self._by_session[one.profile, session_id, one.place] = one.workspace_id

    def path(self, workspace_id: str) -> Path:
        """The path that stands for a workspace, for backends and stores."""
        return self.folder / workspace_id

    def find(self, profile: str, workspace_id: str, kind: WorkspaceKind) -> Workspace:
        """Returns a profile's workspace; fails with NotFound, also if it is another profile's."""
        found = self._known.get(workspace_id)
        if found is None or found.profile != profile or found.kind is not kind:
            raise NotFound(f"there is no {kind} {workspace_id}")
        return found

    def of_session(self, profile: str, session_id: str, place: str) -> Workspace | None:
        found = self._known.get(self._by_session.get((profile, session_id, place), ""))
        return found if found is not None and found.state is WorkspaceState.READY else None

    def check_room(self, profile: str) -> None:
        """Fails with LimitExceeded if a profile's workspaces have reached the size limit."""
        found = [one.size_bytes or 0 for one in self._known.values() if one.profile == profile]
        if self._most_bytes and sum(found) >= self._most_bytes:
            raise LimitExceeded(
                f"the {len(found)} workspaces and snapshots of profile {profile} take "
                f"{sum(found)} bytes, and may take {self._most_bytes} "
                "(executor.workspaces.total_bytes): delete some with hermes workspaces delete"
            )

    @asynccontextmanager
    async def reserve(
        self, profile: str, session_id: str, place: str, workspace_id: str
    ) -> AsyncGenerator[Workspace | None]:
        """Holds the workspace of a session's next sandbox during the block; None for a new one.

        Fails with NotFound if the requested workspace does not exist or is in another place.
        """
        while True:
            if workspace_id:
                found = self.find(profile, workspace_id, WorkspaceKind.WORKSPACE)
                if found.place != place or found.state is not WorkspaceState.READY:
                    where = "kept where this template keeps its workspaces"
                    raise NotFound(f"there is no workspace {workspace_id} that is {where}")
            else:
                found = self.of_session(profile, session_id, place)
            if found is None:
                self.check_room(profile)
                yield None
                return
            if closed := self._closed.get(found.workspace_id):
                await closed.wait()
                continue
            with self.hold(found.workspace_id):
                yield found
                return

    @contextmanager
    def hold(self, workspace_id: str) -> Generator[None]:
        """Protects a workspace from removal; it must not be closed."""
        assert workspace_id not in self._closed, "it is being removed"
        self._held[workspace_id] += 1
        try:
            yield
        finally:
            self._held[workspace_id] -= 1
            if not self._held[workspace_id]:
                del self._held[workspace_id]

    @contextmanager
    def close(self, *workspace_ids: str) -> Generator[None]:
        """Keeps others from using some workspaces; they must not be held."""
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
        return self._held[workspace_id] > 0 or workspace_id in self._closed

    async def wait_open(self, workspace_id: str) -> Workspace:
        """Waits until a workspace is not closed and returns it; fails with NotFound if it is gone.

        Hold or close it at once, before the next await.
        """
        while True:
            found = self._known.get(workspace_id)
            if closed := self._closed.get(workspace_id):
                await closed.wait()
            elif found is None:
                raise NotFound(f"there is no {workspace_id} any more")
            else:
                return found

    def mark_unchecked(self, workspace_id: str) -> None:
        self.unchecked.add(workspace_id)
        self.changed.set()
