"""The seam between the executor and the backends that make its boxes.

A `Backend` makes boxes, opens a byte stream to the supervisor in a box, and destroys boxes. It
knows nothing of commands, sessions or leases: `executor_service.link` handles those over the
stream. A backend whose workspaces outlive their boxes may have a `WorkspaceStore`, which copies,
measures and removes workspaces that no box uses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field

from executor_service.link.byte_streams import ByteStream
from executor_service.records.network_policy import NetworkMode
from executor_service.records.sandboxes import Isolation

_T = TypeVar("_T")

MIB = 1024 * 1024
GIB = 1024 * MIB

SKILLS = "/skills"
"""A tmpfs of this size, where agents put the files of loaded skills."""
SKILLS_BYTES = 32 * MIB

BOX, OWNER, POOL, WORKSPACE = (f"org.hermes.{it}" for it in ("box", "owner", "pool", "workspace"))
"""Labels of boxes, by which engines find them again."""


class Enforcement(StrEnum):
    """How a backend enforces one limit."""

    ENFORCED = "kernel"
    """The kernel or the engine prevents any excess."""
    WATCHED = "watched"
    """It is checked every few seconds, so it can be exceeded for a moment."""
    NONE = "none"


class WorkspacePlace(StrEnum):
    """Where a box's workspace lies."""

    HERE = "here"
    """In a folder of this machine."""
    THERE = "there"
    """Elsewhere, under the folder's name; it outlives the box."""
    IN_BOX = "in_box"
    """In the box, with which it ends."""


class Limits(Struct, frozen=True):
    """What one box may use."""

    memory_bytes: int = 2 * GIB
    """Memory of all processes and tmpfs files together; must exceed the sum of the tmpfs sizes."""
    cpu_count: float | None = None
    """CPUs' worth of time per second; None leaves it to the scheduler's fair share."""
    pids: int = 256
    """Processes and threads, including the supervisor."""
    tmp_bytes: int = 512 * MIB
    """Size of /tmp, which is memory."""
    workspace_bytes: int = 10 * GIB
    """Size of /workspace, if the backend or the executor can enforce it."""


class BoxSpec(Struct, frozen=True):
    """The box to make."""

    box_key: str
    """The executor's name of the box: unique, `[a-z0-9_]{1,64}`; not a secret."""
    owner: str
    """The executor installation that it belongs to; list_boxes returns only this owner's boxes."""
    pool: str
    """The template that it was made from."""
    workspace: Path
    """An existing folder to show as /workspace; on other machines, its name stands for a folder."""
    limits: Limits = Limits()
    is_bound: bool = False
    """Whether the workspace is a folder of the user's machine, whose owner must stay."""
    secret_sha256: str = "none"  # noqa: S105
    """SHA-256 (hex) of the secret that the executor proves to the supervisor; none in a probe."""


class Box(Struct, frozen=True):
    """One box that a backend has made."""

    key: str
    backend: str
    native_id: str
    """The backend's name for it: a container id, a process id."""
    workspace: Path
    pool: str
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """The backend's own notes, kept as they were at creation."""


def labels_of(spec: BoxSpec) -> dict[str, str]:
    """Return the labels by which a box is found again."""
    return {BOX: spec.box_key, OWNER: spec.owner, POOL: spec.pool, WORKSPACE: str(spec.workspace)}


def labelled_box(backend: str, native_id: str, labels: Mapping[str, str]) -> Box:
    """Return the box with these labels."""
    return Box(labels[BOX], backend, native_id, Path(labels[WORKSPACE]), labels[POOL])


class LimitSupport(Struct, frozen=True):
    """How each of `Limits` is enforced."""

    memory: Enforcement = Enforcement.NONE
    cpu: Enforcement = Enforcement.NONE
    pids: Enforcement = Enforcement.NONE
    tmp: Enforcement = Enforcement.NONE
    workspace: Enforcement = Enforcement.NONE


class Capabilities(Struct, frozen=True):
    """What a backend can do on this machine, found by trying."""

    name: str
    available: bool
    reason: str
    """If not available: what is missing and what to do. Otherwise one line about how it runs."""
    isolation: Isolation
    limits: LimitSupport = LimitSupport()
    pty: bool = True
    network_policies: tuple[NetworkMode, ...] = tuple(NetworkMode)
    """Empty if boxes always have the network of their machine."""
    workspaces: WorkspacePlace = WorkspacePlace.HERE
    copies_workspaces: bool = False
    """Whether workspaces can be forked and snapshotted; the executor sets this."""
    measures_workspaces: bool = False
    """Whether its store can measure workspaces cheaply and often."""
    account: str = ""
    """For backends without isolation: user@host of the commands."""

    def holds(self, mode: NetworkMode) -> bool:
        """Whether a network mode can be enforced; NONE always counts as enforced."""
        return mode in (NetworkMode.NONE, *self.network_policies)


class Backend(Protocol):
    """One way to make boxes."""

    async def probe(self) -> Capabilities:
        """Try whether a box can be made here and what is enforced; failures are not raised."""
        ...

    async def create(self, spec: BoxSpec) -> Box:
        """Make a box whose supervisor is listening; BackendUnavailable or BoxCreateFailed."""
        ...

    async def connect(self, box: Box) -> ByteStream:
        """Open another stream to the box's supervisor; BoxLost if it is gone."""
        ...

    async def destroy(self, box: Box) -> None:
        """End every process of the box and remove it, not its workspace; no error if gone."""
        ...

    async def list_boxes(self) -> list[Box]:
        """Return all living boxes of this owner, including those of earlier processes."""
        ...

    async def close(self) -> None:
        """Release what this object holds; the boxes live on."""
        ...


async def make_or_destroy(
    making: Coroutine[Any, Any, _T], destroy: Callable[[_T], Awaitable[None]]
) -> _T:
    """Returns the box; if the caller is cancelled, finishes and destroys it."""
    box = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(box)
    except asyncio.CancelledError:
        # A thread or an engine continues after a cancellation; its box must not be left.
        await asyncio.wait([box])
        if not box.exception():
            await destroy(box.result())
        raise


class Size(NamedTuple):
    """The measured size of a workspace."""

    seen_bytes: int
    is_all: bool
    """False if it exceeds the limit of the measurement or is nested too deep."""


class WorkspaceStore(Protocol):
    """Where workspaces are kept. All methods fail with BackendError."""

    @property
    def place(self) -> str:
        """Names the place; all backends that keep workspaces there have the same name for it."""
        ...

    async def present(self, folder: Path) -> list[Path]:
        """Return the stored workspaces of those whose paths are in a folder."""
        ...

    async def measure(self, most_bytes: Mapping[Path, int]) -> Mapping[Path, Size]:
        """Measure workspaces on disk, each up to its limit; unknown ones are left out."""
        ...

    async def copy(self, source: Path, target: Path, most_bytes: int) -> int:
        """Copy a workspace to a new one, all or nothing; returns the size of the copy.

        Fails with WorkspaceRefused. After a cancellation, the caller removes what is left.
        """
        ...

    async def remove(self, workspace: Path) -> None:
        """Remove a workspace and unfinished copies to it; no error if it is gone."""
        ...

    async def remove_empty(self, workspaces: Sequence[Path]) -> list[Path]:
        """Remove those that are empty; return which of them are gone now."""
        ...


@runtime_checkable
class KeepsWorkspaces(Protocol):
    """A backend that keeps workspaces elsewhere and can manage them there."""

    @property
    def workspace_store(self) -> WorkspaceStore | None:
        """Return their store; None if the configuration keeps no workspaces."""
        ...


@runtime_checkable
class HasControlPlane(Protocol):
    """A backend whose boxes run on while the server that manages them does not answer."""

    @property
    def boxes_outlive_outages(self) -> bool: ...


def store_elsewhere(backend: object) -> WorkspaceStore | None:
    """Return the store of a backend that keeps workspaces elsewhere, if it has one."""
    return backend.workspace_store if isinstance(backend, KeepsWorkspaces) else None
