"""The journal's pages about workspaces: which there are, and which session has which."""

import sqlite3
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import astuple, replace

from executor_service.journal import Journal


class WorkspaceKind(StrEnum):
    """What it is for."""

    WORKSPACE = "workspace"
    SNAPSHOT = "snapshot"
    """A copy that no sandbox gets, so that nobody changes it."""


class WorkspaceState(StrEnum):
    """Where it is in its life: written down before what it says is done."""

    MAKING = "making"
    """It is being copied from another; what there is of it is not whole."""
    READY = "ready"
    GOING = "going"
    """It is being removed; no sandbox gets what is left of it."""


class RemovalReason(StrEnum):
    """Why it went."""

    ASKED = "asked"
    EMPTY = "empty"
    """It was made for a session, which has left nothing in it."""
    RETENTION = "retention"
    UNFINISHED = "unfinished"
    """The copy that it should have become failed."""


class Workspace(Struct, frozen=True):
    """One workspace or snapshot."""

    workspace_id: str
    """Also the name of its folder."""
    kind: WorkspaceKind
    profile: str
    place: str
    """Where it is kept: what the store of the backend calls itself."""
    template: str
    """The kind of sandbox that it was made with."""
    backend: str
    created_at: float
    """Seconds since 1970, as all times here that end in `_at`."""
    used_at: float
    """When a sandbox over it last began or ended, or it was last copied."""
    state: WorkspaceState = WorkspaceState.READY
    name: str = ""
    """What its owner calls it."""
    source_id: str = ""
    """What it is a copy of."""
    request_id: str = ""
    """Of the call that made it; empty if it was made because a session needed one."""
    size_bytes: int | None = None
    """When it was last measured; None where it never was."""
    measured_at: float = 0.0
    reason: str = ""
    """Why it is going."""

    def going(self, reason: RemovalReason) -> Self:
        """The same on its way out."""
        return replace(self, state=WorkspaceState.GOING, reason=reason)

    def refused(self) -> Self:
        """The same when it cannot go yet: it stays as it was, unless it was never whole."""
        if self.reason == RemovalReason.UNFINISHED:
            return self
        return replace(self, state=WorkspaceState.READY, reason="")


class Usage(Struct, frozen=True):
    """What a profile's workspaces and snapshots take together."""

    count: int
    size_bytes: int
    """As far as they were measured."""


_COLUMNS = ", ".join(f"kept_workspace.{name}" for name in Workspace.__struct_fields__)
_MARKS = ", ".join("?" for _ in Workspace.__struct_fields__)


class WorkspaceRows:
    """What is written down of workspaces; what has effects is synced before they are had."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def put(self, workspace: Workspace) -> None:
        """Stores one as it is now; synced."""
        await self._journal.write(lambda db: put(db, workspace), synced=True)

    async def used(self, workspace_id: str, moment: float) -> None:
        """Notes when one was used last; nothing depends on it, so it is not synced."""
        await self._journal.write(partial(use, workspace_id, moment))

    async def measured(self, workspace_id: str, size_bytes: int | None, moment: float) -> None:
        """Notes what one takes, as seen at a time."""
        query = "UPDATE kept_workspace SET size_bytes = ?, measured_at = ? WHERE workspace_id = ?"
        row = (size_bytes, moment, workspace_id)
        await self._journal.write(lambda db: db.execute(query, row))

    async def forget(self, workspace_id: str) -> None:
        """Removes one that is gone; no session has it any more."""

        def write(db: sqlite3.Connection) -> None:
            for table in ("kept_workspace", "session_workspace"):
                query = f"DELETE FROM {table} WHERE workspace_id = ?"  # noqa: S608
                db.execute(query, (workspace_id,))

        await self._journal.write(write)

    async def get(self, workspace_id: str) -> Workspace | None:
        """One by its id."""
        return next(iter(await self._read("WHERE workspace_id = ?", workspace_id)), None)

    async def requested(self, profile: str, request_id: str) -> Workspace | None:
        """The one that an earlier call with this id has made."""
        where = "WHERE profile = ? AND request_id = ?"
        return next(iter(await self._read(where, profile, request_id)), None)

    async def of_session(self, profile: str, session_id: str, place: str) -> Workspace | None:
        """The one that a session's earlier sandboxes had in a place."""
        where = """
            JOIN session_workspace USING (workspace_id)
            WHERE session_workspace.profile = ? AND session_id = ?
            AND session_workspace.place = ? AND state = 'ready'
        """
        return next(iter(await self._read(where, profile, session_id, place)), None)

    async def sessions_of(self, workspace_ids: Iterable[str]) -> dict[str, list[str]]:
        """The sessions that have each of these."""
        found: dict[str, list[str]] = {workspace_id: [] for workspace_id in workspace_ids}
        query = "SELECT session_id FROM session_workspace WHERE workspace_id = ? ORDER BY 1"

        def read(db: sqlite3.Connection) -> None:
            for workspace_id, sessions in found.items():
                sessions += [row[0] for row in db.execute(query, (workspace_id,))]

        await self._journal.read(read)
        return found

    async def of_profile(
        self, profile: str, kind: WorkspaceKind, source_id: str, after: str, limit: int
    ) -> list[Workspace]:
        """A profile's workspaces or snapshots, of one source if one is given, whose ids come after
        one, the oldest first."""
        where = """
            WHERE profile = ? AND kind = ? AND ? IN ('', source_id) AND workspace_id > ?
            ORDER BY workspace_id LIMIT ?
        """
        return await self._read(where, profile, kind, source_id, after, limit)

    async def in_state(self, state: WorkspaceState) -> list[Workspace]:
        """All in a state."""
        return await self._read("WHERE state = ?", state)

    async def unused_since(
        self, moment: float, place: str, after: tuple[float, str], limit: int
    ) -> list[Workspace]:
        """Those in a place that nobody used since a time, the longest unused first, from behind
        the one that was last used at a time and has an id."""
        where = """
            WHERE state = 'ready' AND used_at < ? AND place = ? AND (used_at, workspace_id) > (?, ?)
            ORDER BY used_at, workspace_id LIMIT ?
        """
        return await self._read(where, moment, place, *after, limit)

    async def unmeasured(self, limit: int, place: str = "") -> list[Workspace]:
        """Those that were used after they were last measured, in one place if one is given."""
        where = """
            WHERE state = 'ready' AND used_at > measured_at AND ? IN ('', place)
            ORDER BY used_at LIMIT ?
        """
        return await self._read(where, place, limit)

    async def ids(self) -> set[str]:
        """The ids of all."""
        query = "SELECT workspace_id FROM kept_workspace"
        return {row[0] for row in await self._journal.read(lambda db: [*db.execute(query)])}

    async def usage(self, profile: str | None = None) -> Usage:
        """What a profile's workspaces and snapshots take, or those of all."""
        query = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM kept_workspace"
        values = () if profile is None else (profile,)
        where = "" if profile is None else " WHERE profile = ?"
        row = await self._journal.read(lambda db: db.execute(query + where, values).fetchone())
        return Usage(*row)

    async def _read(self, where: str, *values: object) -> list[Workspace]:
        query = f"SELECT {_COLUMNS} FROM kept_workspace {where}"  # noqa: S608 - all of it is ours
        rows = await self._journal.read(lambda db: db.execute(query, values).fetchall())
        return [_workspace(row) for row in rows]


def put(db: sqlite3.Connection, workspace: Workspace) -> None:
    """Stores one, within a transaction."""
    db.execute(f"REPLACE INTO kept_workspace VALUES ({_MARKS})", astuple(workspace))  # noqa: S608


def use(workspace_id: str, moment: float, db: sqlite3.Connection) -> None:
    """Notes when one was used last, within a transaction."""
    query = "UPDATE kept_workspace SET used_at = max(used_at, ?) WHERE workspace_id = ?"
    db.execute(query, (moment, workspace_id))


def give(db: sqlite3.Connection, workspace: Workspace, session_id: str) -> None:
    """Stores one, and that a session has it, within a transaction."""
    put(db, workspace)
    row = (workspace.profile, session_id, workspace.place, workspace.workspace_id)
    db.execute("REPLACE INTO session_workspace VALUES (?, ?, ?, ?)", row)


def _workspace(row: tuple[Any, ...]) -> Workspace:
    found = Workspace(*row)
    return replace(found, kind=WorkspaceKind(found.kind), state=WorkspaceState(found.state))
