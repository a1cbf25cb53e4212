"""Requests for sandboxes, and the records that the journal keeps."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from executor_service.records.network_policy import NetworkPolicy

DEFAULT_TEMPLATE = "default"
"""The default template, which always exists."""


MAX_NUMBER = 1 << 62
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


class Isolation(StrEnum):
    """What separates a command from the machine, weakest first."""

    NONE = "none"
    NAMESPACE = "namespace"
    USERSPACE_KERNEL = "userspace_kernel"
    MICROVM = "microvm"


class SandboxState(StrEnum):
    """The state of a sandbox."""

    READY = "ready"
    RELEASED = "released"
    LOST = "lost"
    """Its box ended unexpectedly."""


class EndReason(StrEnum):
    """Why a command ended."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OOM = "OOM"
    DISK_QUOTA = "DISK_QUOTA"
    PIDS_LIMIT = "PIDS_LIMIT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    SANDBOX_LOST = "SANDBOX_LOST"
    EXECUTOR_RESTARTED = "EXECUTOR_RESTARTED"
    UNKNOWN = "UNKNOWN"


class Lifetimes(Struct, frozen=True):
    """How long a sandbox lives, in seconds."""

    idle_s: float
    """Without a call and without a running command."""
    total_s: float
    """In any case."""


class AcquireRequest(Struct, frozen=True):
    """What an AcquireSandbox call requests."""

    request_id: str
    profile: str
    session_id: str
    template: str
    """The template of a new sandbox; empty for the default one."""
    min_isolation: Isolation
    workdir: str
    """A folder of the host to bind; empty for the session's own workspace."""
    workspace_id: str
    """The workspace to use; empty for that of the session's earlier sandboxes."""
    earlier_workspace_id: str
    """The session's workspace at another executor."""
    lifetimes: Lifetimes
    """0 for the default times."""
    wait_s: float
    network: NetworkPolicy | None = None
    """What it may reach; None for the template's policy, or the current one."""


class Claim(Struct, frozen=True):
    """The record of who has a sandbox; stored before the caller gets it."""

    sandbox_id: str
    """Also the key of its box."""
    profile: str
    session_id: str
    backend: str
    isolation: Isolation
    workspace: str
    """The folder that the box sees as /workspace."""
    claimed_at: float
    """Seconds since 1970, as all times here that end in `_at`."""
    begun_s: float
    """When it was claimed, by the monotonic clock of that boot."""
    boot_id: str
    """The boot of `begun_s`."""
    lifetimes: Lifetimes
    epoch: int
    """Counts the owners; only the latest may use the sandbox."""
    request_id: str
    """The request that made the latest epoch."""
    workspace_id: str = ""
    """The workspace's id; empty if it ends with the sandbox or is a folder of the host."""
    template: str = DEFAULT_TEMPLATE
    network: NetworkPolicy | None = None
    """What it may reach; None if it has the network of its machine."""
    state: SandboxState = SandboxState.READY
    ended_at: float | None = None

    def next_network(self, wanted: NetworkPolicy | None) -> NetworkPolicy | None:
        """Returns the next owner's policy, with the next generation if it changes."""
        has = self.network
        if wanted is None or has is None:
            return wanted or has
        changes = (wanted.mode, wanted.rules) != (has.mode, has.rules)
        return replace(wanted, generation=has.generation + changes)


class Exit(Struct, frozen=True):
    """How a command ended; code and signal are both None if that is unknown."""

    reason: EndReason
    totals: tuple[Number, Number]
    """Bytes of standard output and standard error."""
    survivors: Number
    """Processes that could not be killed."""
    duration_ms: Number
    code: Annotated[int, Meta(ge=0, le=255)] | None = None
    signal: Annotated[int, Meta(ge=0, le=64)] | None = None
    truncated: bool = False
    """Whether the store dropped output."""


class CommandRecord(Struct, frozen=True):
    """A command as the journal knows it."""

    sandbox_id: str
    exec_id: str
    digest: str
    """Identifies the request: the same id with another digest is another command."""
    started_at: float
    ended_at: float | None = None
    exit: Exit | None = None
    stored_bytes: int = 0
    """Output on disk, once the command has ended."""
