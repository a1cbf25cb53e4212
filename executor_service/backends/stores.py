"""What a backend can do with workspaces while no box is over them: a seam beside `Backend`.

A backend whose workspaces outlive their boxes may have a store. One that has none keeps them for
ever, or ends them with their boxes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class Size(NamedTuple):
    """What was seen of a workspace on disk."""

    seen_bytes: int
    is_all: bool
    """False where it takes more than was to be looked at, or has folders too deep to look at."""


class WorkspaceStore(Protocol):
    """Where workspaces are kept. All of it fails with BackendError."""

    @property
    def place(self) -> str:
        """Names where that is, alike for all backends that keep them there."""
        ...

    async def present(self, folder: Path) -> list[Path]:
        """The workspaces that are there of those that a folder's paths stand for."""
        ...

    async def measure(self, most_bytes: Mapping[Path, int]) -> Mapping[Path, Size]:
        """What workspaces take on disk, each looked at until it is more than so many bytes; those
        are left out of which nobody can tell."""
        ...

    async def copy(self, source: Path, target: Path, most_bytes: int) -> int:
        """Copy a workspace to one that is not there yet, all or nothing; what the copy takes.

        WorkspaceRefused says why it cannot be done. Whoever is cancelled removes what is left.
        """
        ...

    async def remove(self, workspace: Path) -> None:
        """Remove a workspace with all that it has, and what a copy to it has left; no error if
        it is gone."""
        ...

    async def remove_empty(self, workspaces: Sequence[Path]) -> list[Path]:
        """Remove those that nothing is in; which of them are gone now."""
        ...


@runtime_checkable
class KeepsWorkspaces(Protocol):
    """A backend whose workspaces are elsewhere, and can be looked after there."""

    @property
    def workspace_store(self) -> WorkspaceStore | None:
        """Where they are kept; None where this one is set up to keep none."""
        ...


def store_elsewhere(backend: object) -> WorkspaceStore | None:
    """The store of a backend whose workspaces are elsewhere, if it has one."""
    return backend.workspace_store if isinstance(backend, KeepsWorkspaces) else None
