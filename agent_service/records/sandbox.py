"""The interface between tools and the executor: commands and files of a session's sandbox.

The first call that needs the sandbox claims it. Callers choose a command's key, so starting it
again finds the running command.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field


class SandboxUnavailable(Exception):
    """No sandbox is available; the message says why and what to do."""


class ExecutorAway(SandboxUnavailable):
    """The executor that has the sandbox, one of several, does not answer."""


class CommandUncertain(Exception):
    """The command may have been started, which cannot be found out; it is not run again."""


class CommandUnknown(Exception):
    """The sandbox has no command of this key."""


class PathRefused(Exception):
    """A path is missing, of the wrong kind or not allowed; the message says which."""


class Stream(StrEnum):
    """Output stream of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ExitReason(StrEnum):
    """Why a command ended; the values are those of the executor's contract."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OOM = "oom"
    DISK_QUOTA = "disk_quota"
    PIDS_LIMIT = "pids_limit"
    LEASE_EXPIRED = "lease_expired"
    SANDBOX_LOST = "sandbox_lost"
    EXECUTOR_RESTARTED = "executor_restarted"
    UNKNOWN = "unknown"


class Command(Struct, frozen=True):
    """A command to run."""

    key: str
    argv: tuple[str, ...]
    cwd: str = ""
    """Absolute or relative to /workspace; empty means /workspace."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 180
    terminal: tuple[int, int] | None = None
    """Rows and columns of a terminal; None means pipes."""
    background: bool = False
    """Children may outlive the command."""
    stdin: bool = False
    """It accepts input while it is followed; background commands always do."""


class Exit(Struct, frozen=True):
    """How a command ended."""

    reason: ExitReason = ExitReason.UNKNOWN
    code: int | None = None
    signal: int = 0
    survivor_count: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


class CommandStatus(Struct, frozen=True):
    """A command as the executor knows it; `exit` is None while it runs."""

    key: str
    started_at_ms: int
    exit: Exit | None


class OutputPage(Struct, frozen=True):
    """A piece of stored output."""

    data: bytes
    offset: int
    total_bytes: int
    status: CommandStatus


class FileStat(Struct, frozen=True):
    """What is at a path; `kind` is file, directory, symlink or other."""

    path: str
    kind: str = "other"
    size_bytes: int = 0
    modified_at_ms: int = 0
    link_target: str = ""
    """The target of a symbolic link, else empty."""


NO_ISOLATION = "none"


class Opening(StrEnum):
    """How untrusted data can enter a sandbox; the values are names of its source."""

    MACHINE = "a machine that is no sandbox"
    FOLDER = "a folder that was there before"
    NETWORK = "a system with a network"


class SandboxInfo(Struct, frozen=True):
    """The sandbox that was used; empty if none was."""

    backend: str = ""
    isolation: str = ""
    """Its isolation from the host: none, namespace, userspace_kernel or microvm."""
    sandbox_id: str = ""
    opening: Opening | None = None
    """None if it holds nothing but the session's own data."""
    has_network: bool = False

    @property
    def warning(self) -> str:
        """Return a warning for the model with each result; empty for a real sandbox."""
        if self.isolation != NO_ISOLATION:
            return ""
        return f"[{self.backend} is no sandbox: this was done on the machine itself]"


NOWHERE = SandboxInfo()

OnOutput = Callable[[Stream, bytes], None]


class Commands(Protocol):
    """Commands of a session's sandbox."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandStatus:
        """Start the command, or find it by its key, and follow it to its end.

        Output comes from the first stored byte, once, also across reconnects. Cancelling leaves the
        command running. Raises PathRefused if the program or folder is missing, else
        SandboxUnavailable or CommandUncertain.
        """
        ...

    async def start(self, command: Command) -> CommandStatus:
        """Start the command, or find it by its key, and return at once."""
        ...

    async def kill(self, key: str) -> CommandStatus:
        """Kill the command's whole process tree and verify it; CommandUnknown if there is none."""
        ...

    async def list(self) -> list[CommandStatus]:
        """Return the sandbox's commands, oldest first; none if there is no sandbox."""
        ...

    async def read(self, key: str, stream: Stream, offset: int, length: int) -> OutputPage:
        """Return stored output from `offset`; a negative offset counts from the end."""
        ...

    async def write(self, key: str, data: bytes, eof: bool, at: int | None = None) -> None:
        """Write to the command's input, and close it if `eof`.

        `at` is the data's position in all input: what was already received is skipped.
        """
        ...


class Files(Protocol):
    """Files of a session's sandbox; every method may raise PathRefused or SandboxUnavailable."""

    async def stat(self, path: str) -> FileStat | None: ...

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        """Return at most `limit` entries of a folder by name, and whether there are more."""
        ...

    async def read(self, path: str, max_bytes: int) -> bytes:
        """Return the whole file; PathRefused if it is longer than `max_bytes`."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Create or atomically replace a file, and create its folders."""
        ...

    async def move(self, source: str, target: str) -> None:
        """Rename a file if it exists, replacing the target."""
        ...

    async def remove(self, path: str) -> None: ...
