"""What is said over a link, as values; and the checks on what a supervisor says.

A supervisor shares its box with whatever the commands are, so each field of each frame is
believed only after it was checked: `FrameError` is the end of that link.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct, field

from executor_service.supervisor.frames import FrameError

_MAX_NUMBER = 1 << 62
_MAX_TEXT_CHARACTERS = 4096


class ExitReason(StrEnum):
    """Why a command is over, as far as its box can tell."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    OOM = "OOM"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    DISK_QUOTA = "DISK_QUOTA"
    PIDS_LIMIT = "PIDS_LIMIT"
    LEASE_EXPIRED = "LEASE_EXPIRED"


class TerminalSize(Struct, frozen=True):
    """Size of a terminal in characters."""

    rows: int = 24
    columns: int = 80


class StartCommand(Struct, frozen=True):
    """A command to run in a box."""

    exec_id: str
    """Chosen by the caller; the same id with the same content is the same command."""
    argv: tuple[str, ...]
    """Program and arguments; bytes that are not UTF-8 as lone surrogates."""
    cwd: str = ""
    """Absolute, or relative to the workspace."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the box's own environment."""
    terminal: TerminalSize | None = None
    """Run on a pseudo-terminal of this size; standard error is then part of standard output."""
    stdin: bool = False
    """Whether input will be sent; without it standard input is empty."""
    run_timeout_s: float | None = None
    """Measured in the box; then the whole tree is ended with reason TIMEOUT."""
    output_limit_bytes: int | None = None
    """Of both streams together; with more the whole tree is killed with reason OUTPUT_LIMIT."""
    kill_grace_s: float = 2.0
    """Time between the polite signal and SIGKILL."""
    heartbeat_s: float | None = 5.0
    leave_children: bool = False
    """Let background processes outlive the first one instead of killing them."""

    def to_wire(self) -> dict[str, Any]:
        """The START frame's object, with the digest that tells requests apart."""
        message: dict[str, Any] = {
            "exec_id": self.exec_id,
            "argv": list(self.argv),
            "cwd": self.cwd,
            "env": dict(self.env),
            "terminal": _terminal_to_wire(self.terminal),
            "stdin": self.stdin,
            "run_timeout_ms": _milliseconds(self.run_timeout_s),
            "kill_grace_ms": _milliseconds(self.kill_grace_s),
            "heartbeat_ms": _milliseconds(self.heartbeat_s),
            "leave_children": self.leave_children,
            "output_limit_bytes": self.output_limit_bytes,
        }
        canonical = json.dumps(message, sort_keys=True).encode("ascii")
        message["digest"] = hashlib.sha256(canonical).hexdigest()
        return message


class Exit(Struct, frozen=True):
    """How a command ended; code and signal are both None when that was never learned."""

    code: int | None
    signal: int | None
    reason: ExitReason
    stdout_bytes: int
    stderr_bytes: int
    survivors: int
    """Processes of the command that could not be killed."""
    duration_ms: int


class Usage(Struct, frozen=True):
    """What a command's processes use together."""

    rss_bytes: int
    cpu_ms: int
    pids: int


class CommandState(Struct, frozen=True):
    """A command as its box knows it."""

    exec_id: str
    digest: str
    state: str
    """starting, running or finished."""
    stdout_offset: int
    stderr_offset: int
    """Where its output goes on."""
    stdin_received: int
    stdin_taken: int


class FileInfo(Struct, frozen=True):
    """What a file is."""

    type: str
    """file, directory, symlink or other."""
    size_bytes: int
    mode: int
    mtime_ns: int
    target: str | None = None
    """Where a symbolic link points."""


class DirectoryEntry(Struct, frozen=True):
    """A name in a folder."""

    name: str
    info: FileInfo


class DirectoryPage(Struct, frozen=True):
    """Some of a folder's entries, sorted by name."""

    entries: tuple[DirectoryEntry, ...]
    more: bool
    """Whether names after the last one exist."""


def read_exit(message: Mapping[str, Any]) -> Exit:
    """An EXITED frame."""
    first, second = _pair(message, "totals")
    try:
        reason = ExitReason(text(message, "reason"))
    except ValueError as error:
        raise FrameError("exit has an unknown reason") from error
    return Exit(
        code=_optional_number(message, "code", 255),
        signal=_optional_number(message, "signal", 64),
        reason=reason,
        stdout_bytes=first,
        stderr_bytes=second,
        survivors=number(message, "survivors"),
        duration_ms=number(message, "duration_ms"),
    )


def read_usage(message: Mapping[str, Any]) -> Usage:
    """A HEARTBEAT frame."""
    return Usage(
        rss_bytes=number(message, "rss_bytes"),
        cpu_ms=number(message, "cpu_ms"),
        pids=number(message, "pids"),
    )


def read_command(message: Mapping[str, Any]) -> CommandState:
    """A COMMAND frame."""
    state = text(message, "state")
    if state not in ("starting", "running", "finished"):
        raise FrameError("command has an unknown state")
    first, second = _pair(message, "acked")
    return CommandState(
        exec_id=text(message, "exec_id"),
        digest=text(message, "digest"),
        state=state,
        stdout_offset=first,
        stderr_offset=second,
        stdin_received=number(message, "stdin_received"),
        stdin_taken=number(message, "stdin_taken"),
    )


def read_file_info(message: Mapping[str, Any]) -> FileInfo:
    """What the box says of a file."""
    kind = text(message, "type")
    if kind not in ("file", "directory", "symlink", "other"):
        raise FrameError("file has an unknown type")
    return FileInfo(
        type=kind,
        size_bytes=number(message, "size"),
        mode=number(message, "mode") & 0o7777,
        mtime_ns=_any_number(message, "mtime_ns"),
        target=text(message, "target") if "target" in message else None,
    )


def read_page(message: Mapping[str, Any]) -> DirectoryPage:
    """One page of a folder."""
    found: list[DirectoryEntry] = []
    for entry in _list(message, "entries"):
        if not isinstance(entry, dict):
            raise FrameError("entry is not an object")
        fields = cast("Mapping[str, Any]", entry)
        name = text(fields, "name")
        if "/" in name or "\0" in name or name in ("", ".", ".."):
            raise FrameError("entry is not a name")
        found.append(DirectoryEntry(name, read_file_info(fields)))
    return DirectoryPage(tuple(found), more=message.get("more") is True)


def number(message: Mapping[str, Any], name: str) -> int:
    """A field that must be a number that is not negative."""
    value = _any_number(message, name)
    if value < 0:
        raise FrameError(f"{name} is negative")
    return value


def text(message: Mapping[str, Any], name: str) -> str:
    """A field that must be text of ordinary length."""
    value = message.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARACTERS:
        raise FrameError(f"{name} is not text")
    return value


def words(message: Mapping[str, Any], name: str) -> str:
    """A field that people read: what no terminal shows, or no answer can carry, is replaced."""
    said = text(message, name)
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in said)


def _any_number(message: Mapping[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or abs(value) > _MAX_NUMBER:
        raise FrameError(f"{name} is not a number")
    return value


def _optional_number(message: Mapping[str, Any], name: str, highest: int) -> int | None:
    if message.get(name) is None:
        return None
    value = number(message, name)
    if value > highest:
        raise FrameError(f"{name} is out of range")
    return value


def _pair(message: Mapping[str, Any], name: str) -> tuple[int, int]:
    values = _list(message, name)
    if len(values) != 2:
        raise FrameError(f"{name} is not a pair")
    first, second = values
    return number({name: first}, name), number({name: second}, name)


def _list(message: Mapping[str, Any], name: str) -> list[object]:
    value = message.get(name)
    if not isinstance(value, list):
        raise FrameError(f"{name} is not a list")
    return cast("list[object]", value)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1000))


def _terminal_to_wire(size: TerminalSize | None) -> dict[str, int] | None:
    return None if size is None else {"rows": size.rows, "columns": size.columns}
