"""What is known of one workspace, and written down of it."""

from enum import StrEnum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace


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
    REMOVING = "removing"
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
    session_ids: tuple[str, ...] = ()
    """The sessions whose next sandboxes are over it."""

    @property
    def is_unmeasured(self) -> bool:
        """Whether it was used after it was last measured."""
        return self.state is WorkspaceState.READY and self.used_at > self.measured_at

    def mark_removing(self, reason: RemovalReason) -> Self:
        """The same on its way out."""
        return replace(self, state=WorkspaceState.REMOVING, reason=reason)

    def mark_kept(self) -> Self:
        """The same when it cannot go yet: it stays as it was, unless it was never whole."""
        if self.reason == RemovalReason.UNFINISHED:
            return self
        return replace(self, state=WorkspaceState.READY, reason="")
