"""The seam between tools and the executor: commands and files of one session's sandbox.

The sandbox is claimed by the first call that needs it. A command's key is chosen by the caller, so
that starting it again finds the one that runs already.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field


class SandboxUnavailable(Exception):
    """No sandbox can be had; the message says why and what to do."""


class ExecutorAway(SandboxUnavailable):
    """The one of several executors that has the sandbox does not answer."""


class CommandUncertain(Exception):
    """The command may have been started, and nobody can be asked; it is not run again."""


class CommandUnknown(Exception):
    """The sandbox knows no command of this key."""


class PathRefused(Exception):
    """A path is missing, not of the right kind or not allowed; the message says which."""


class Stream(StrEnum):
    """Which output of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ExitReason(StrEnum):
    """Why a command ended; the values are those of the executor's contract."""

    EXITED = "exited"
    SIGNALED = "signaled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    OOM = "oom"
    OUTPUT_LIMIT = "output_limit"
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
    """Absolute or relative to /workspace; empty is /workspace."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 180
    terminal: tuple[int, int] | None = None
    """Rows and columns of a terminal; None means pipes."""
    background: bool = False
    """Children may outlive the command."""
    stdin: bool = False
    """It is given input while somebody follows it; one in the background can always be."""


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
    """Where a symbolic link points; empty otherwise."""


NO_ISOLATION = "none"


class Opening(StrEnum):
    """How texts of others can come into a sandbox; the values name it as where they are from."""

    MACHINE = "a machine that is no sandbox"
    FOLDER = "a folder that was there before"
    NETWORK = "a sandbox with a network"


class SandboxInfo(Struct, frozen=True):
    """The sandbox in which something was done; empty where none was needed."""

    backend: str = ""
    isolation: str = ""
    """What stands between it and its machine: none, namespace, userspace_kernel or microvm."""
    sandbox_id: str = ""
    opening: Opening | None = None
    """None where nothing is in there but what the session itself has put there."""
    has_network: bool = False
    """Whether something can be sent from there."""

    @property
    def warning(self) -> str:
        """What the model is told of it with each result; empty where it is a real sandbox."""
        if self.isolation != NO_ISOLATION:
            return ""
        return f"[{self.backend} is no sandbox: this was done on the machine itself]"


NOWHERE = SandboxInfo()

OnOutput = Callable[[Stream, bytes], None]


class Commands(Protocol):
    """Commands of a session's sandbox."""

    async def run(self, command: Command, on_output: OnOutput) -> CommandStatus:
        """Start the command, or find it by its key, and follow it to its end.

        Output comes from the first stored byte on, once each, also across reconnects. Cancelling
        leaves the command running. Raises PathRefused where the program or the folder is missing,
        else SandboxUnavailable or CommandUncertain.
        """
        ...

    async def start(self, command: Command) -> CommandStatus:
        """Start the command, or find it by its key, and return at once."""
        ...

    async def kill(self, key: str) -> CommandStatus:
        """End the command's whole tree and verify it; CommandUnknown when there is none."""
        ...

    async def list(self) -> list[CommandStatus]:
        """The commands that the sandbox knows, the oldest first; none when there is no sandbox."""
        ...

    async def read(self, key: str, stream: Stream, offset: int, length: int) -> OutputPage:
        """Stored output from `offset` on; a negative offset counts from the end."""
        ...

    async def write(self, key: str, data: bytes, eof: bool, at: int | None = None) -> None:
        """Give the command input, and end it when `eof` is set.

        With the position `at` of the data in all input, what the command has already is left out.
        """
        ...


class Files(Protocol):
    """Files of a session's sandbox; PathRefused and SandboxUnavailable from every method."""

    async def stat(self, path: str) -> FileStat | None:
        """What is at the path; None when nothing is."""
        ...

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        """At most `limit` entries of a folder by name, and whether there are more."""
        ...

    async def read(self, path: str, max_bytes: int) -> bytes:
        """The whole file; PathRefused when it is longer than `max_bytes`."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace or make the file as a whole, and the folders above it."""
        ...

    async def move(self, source: str, target: str) -> None:
        """Give a file, if it is still there, another name, also that of a file that is there."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, if it is still there."""
        ...
