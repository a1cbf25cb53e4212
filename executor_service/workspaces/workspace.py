"""The record of a workspace."""

from enum import StrEnum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace


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
