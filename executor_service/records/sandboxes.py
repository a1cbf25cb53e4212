"""What the executor is asked for, and what it remembers also across its own restarts."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from executor_service.records.network_policy import NetworkPolicy

DEFAULT_TEMPLATE = "default"
"""The usual sandboxes; they are there whether or not they are among the templates."""


MAX_NUMBER = 1 << 62
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]


class Isolation(StrEnum):
    """What stands between a command and the machine, weakest first."""

    NONE = "none"
    NAMESPACE = "namespace"
    USERSPACE_KERNEL = "userspace_kernel"
    MICROVM = "microvm"


class SandboxState(StrEnum):
    """Where a sandbox is in its life."""

    READY = "ready"
    RELEASED = "released"
    """Its time was over."""
    LOST = "lost"
    """Its box went without having been asked to."""


class EndReason(StrEnum):
    """Why a command ended: what its box can tell, and what only the executor can."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OOM = "OOM"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
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
    """What somebody asks for."""

    request_id: str
    profile: str
    session_id: str
    template: str
    """What a new sandbox is made from; empty is the usual."""
    min_isolation: Isolation
    workdir: str
    """A folder of the host to be bound; empty is the session's own workspace."""
    workspace_id: str
    """Which workspace it is to be; empty is that of the session's earlier sandboxes."""
    earlier_workspace_id: str
    """Which one the session had at another executor."""
    lifetimes: Lifetimes
    """0 stands for the usual time."""
    wait_s: float
    network: NetworkPolicy | None = None
    """What it may reach; None is what its template says, or what it has."""


class Claim(Struct, frozen=True):
    """Whose a sandbox is: stored before the sandbox is handed out."""

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
    """When it was claimed by the monotonic clock, which goes on as long as the machine runs."""
    boot_id: str
    """Which run of the machine that was."""
    lifetimes: Lifetimes
    epoch: int
    """Counts the owners; only the latest may do anything."""
    request_id: str
    """Of the call that made the latest epoch."""
    workspace_id: str = ""
    """The workspace that it is; empty if it ends with the sandbox, or is a folder of the host."""
    template: str = DEFAULT_TEMPLATE
    """What it was made from."""
    network: NetworkPolicy | None = None
    """What it may reach; None where it has the network of its machine."""
    state: SandboxState = SandboxState.READY
    ended_at: float | None = None

    def next_network(self, wanted: NetworkPolicy | None) -> NetworkPolicy | None:
        """The policy of the next owner: the next generation if it allows something else."""
        has = self.network
        if wanted is None or has is None:
            return wanted or has
        changes = (wanted.mode, wanted.rules) != (has.mode, has.rules)
        return replace(wanted, generation=has.generation + changes)


class Exit(Struct, frozen=True):
    """How a command ended; code and signal are both None when that was never learned."""

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
    """Stands for the request: the same id with another digest is another command."""
    started_at: float
    ended_at: float | None = None
    exit: Exit | None = None
    stored_bytes: int = 0
    """Output that is on disk, once the command has ended."""
