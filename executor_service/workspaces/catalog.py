"""Which workspaces there are, and whether anybody is about to do something with one."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from executor_service.journal import Journal
from executor_service.workspaces.workspace import Workspace, WorkspaceKind, WorkspaceState
from services.errors import LimitExceeded, NotFound
from services.validation import decode


class Catalog:
    """All workspaces as they are written down, and what is under way with them in this process.

    A workspace is held while something is made over it or copied from it, and closed while it is
    removed: never both. Both are known at once, without a wait in between.
    """

    def __init__(self, journal: Journal, folder: Path, most_bytes: int) -> None:
        """It is empty until it is loaded."""
        self.folder = folder
        """What stands for each is below it."""
        self._journal = journal
        self._most_bytes = most_bytes
        self._known: dict[str, Workspace] = {}
        self._by_session: dict[tuple[str, str, str], str] = {}
        """By profile, session and place, the workspace of the session's next sandbox."""
        self._writing = asyncio.Lock()
        self._held: Counter[str] = Counter()
        self._closed: dict[str, asyncio.Event] = {}
        self.unchecked: set[str] = set()
        """Those that may be empty by now, as nobody has looked since."""
        self.changed = asyncio.Event()
        """Set when there are such."""

    # ---- what is known

    async def load(self) -> None:
        """Reads what is written down."""
        query = "SELECT record FROM workspace"
        rows = await self._journal.read(lambda db: db.execute(query).fetchall())
        self._note([decode(record, Workspace) for (record,) in rows])

    def __iter__(self) -> Iterator[Workspace]:
        """All of them, the longest unused first."""
        return iter(sorted(self._known.values(), key=lambda one: (one.used_at, one.workspace_id)))

    def get(self, workspace_id: str) -> Workspace | None:
        """One by its id."""
        return self._known.get(workspace_id)

    async def put(self, workspace: Workspace) -> None:
        """Writes one down as it is now, with the sessions that it is known to have; synced."""
        async with self._writing:
            if known := self._known.get(workspace.workspace_id):
                # They may have changed since the caller looked, and only `assign` changes them.
                workspace = replace(workspace, session_ids=known.session_ids)
            await self._put([workspace], synced=True)

    async def change(self, workspace_id: str, **changes: object) -> None:
        """Changes what is known of one, if it is there still; nothing depends on it, so it is not
        synced."""
        async with self._writing:
            if found := self._known.get(workspace_id):
                changed = replace(found, **changes)  # pyright: ignore[reportArgumentType]
                await self._put([changed], synced=False)

    async def assign(self, workspace: Workspace, session_id: str) -> None:
        """Writes one down as a session's, instead of the one that it had in this place; synced by
        the claim that follows."""
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
        """Removes one that is gone; no session has it any more."""
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

    # ---- what is wanted of them

    def path(self, workspace_id: str) -> Path:
        """What stands for a workspace when boxes are made and stores are asked."""
        return self.folder / workspace_id

    def find(self, profile: str, workspace_id: str, kind: WorkspaceKind) -> Workspace:
        """Returns a profile's own; fails with NotFound, whether or not another has it."""
        found = self._known.get(workspace_id)
        if found is None or found.profile != profile or found.kind is not kind:
            raise NotFound(f"there is no {kind} {workspace_id}")
        return found

    def of_session(self, profile: str, session_id: str, place: str) -> Workspace | None:
        """The one that a session's earlier sandboxes had in a place."""
        found = self._known.get(self._by_session.get((profile, session_id, place), ""))
        return found if found is not None and found.state is WorkspaceState.READY else None

    def check_room(self, profile: str) -> None:
        """Fails with LimitExceeded when a profile has no room for another one."""
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
        """Holds the workspace that a session's next sandbox is to be over, for the time of the
        block; None if it gets a new one.

        Fails with NotFound if the one that is asked for is not there, or is elsewhere.
        """
        while True:
            if workspace_id:
                found = self.find(profile, workspace_id, WorkspaceKind.WORKSPACE)
                if found.place != place or found.state is not WorkspaceState.READY:
                    where = "kept where sandboxes of this template are"
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
    def close(self, *workspace_ids: str) -> Generator[None]:
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

    async def wait_open(self, workspace_id: str) -> Workspace:
        """One as it is when nobody has it closed, to be held or closed at once; NotFound if it has
        gone meanwhile."""
        while True:
            found = self._known.get(workspace_id)
            if closed := self._closed.get(workspace_id):
                await closed.wait()
            elif found is None:
                raise NotFound(f"there is no {workspace_id} any more")
            else:
                return found

    def mark_unchecked(self, workspace_id: str) -> None:
        """Somebody has to look what a sandbox has left."""
        self.unchecked.add(workspace_id)
        self.changed.set()
