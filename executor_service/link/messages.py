"""Messages of a link as values, with strict checks: a `FrameError` ends the link.

A supervisor shares its box with untrusted commands, so every field of every frame is checked.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, ValidationError, field, to_builtins

from executor_service.records.sandboxes import MAX_NUMBER, Number
from executor_service.supervisor.frames import FrameError
from services.validation import convert

_MAX_TEXT_CHARACTERS = 4096
_NAME = r"\A(?!\.{1,2}\Z)[^/\x00]+\Z"
Text = Annotated[str, Meta(max_length=_MAX_TEXT_CHARACTERS)]
T = TypeVar("T")


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
    fallback: str = ""
    """Program to run if the box does not have the first one."""
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
    kill_grace_s: float = 2.0
    """Time between SIGTERM and SIGKILL."""
    leave_children: bool = False
    """Let background processes outlive the first one instead of killing them."""

    def to_wire(self) -> dict[str, Any]:
        """The START frame's object, with the digest that tells requests apart."""
        message = to_builtins(self)
        canonical = json.dumps(message, sort_keys=True).encode("ascii")
        return {**message, "digest": hashlib.sha256(canonical).hexdigest()}


class CommandState(Struct, frozen=True):
    """A command as its box knows it."""

    exec_id: Text
    digest: Text
    state: Literal["running", "finished"]
    acked: tuple[Number, Number]
    """Where its standard output and standard error continue."""
    stdin_received: Number
    stdin_taken: Number


class FileInfo(Struct, frozen=True):
    """Type and attributes of a file."""

    type: Literal["file", "directory", "symlink", "other"]
    mode: Annotated[int, Meta(ge=0, le=0o7777)]
    mtime_ns: Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    size_bytes: Number = field(name="size")
    target: Text | None = None


class DirectoryEntry(FileInfo, frozen=True, kw_only=True):
    """A file and its name in a folder."""

    name: Annotated[str, Meta(max_length=_MAX_TEXT_CHARACTERS, pattern=_NAME)]


class DirectoryPage(Struct, frozen=True):
    """Some of a folder's entries, sorted by name."""

    entries: tuple[DirectoryEntry, ...]
    more: bool
    """Whether names after the last one exist."""


def read(message: Mapping[str, Any], kind: type[T]) -> T:
    """Convert a frame's object to one of the kinds above; fails with FrameError."""
    try:
        return convert(message, kind)
    except ValidationError as error:
        raise FrameError(str(error)) from error


def read_number(message: Mapping[str, Any], name: str) -> int:
    """Read a field that must be a non-negative number."""
    value = message.get(name)
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise FrameError(f"{name} is not a number")
    return value


def read_text(message: Mapping[str, Any], name: str) -> str:
    """Read a field for people; characters that a terminal or answer cannot carry are replaced."""
    said = message.get(name)
    if not isinstance(said, str) or len(said) > _MAX_TEXT_CHARACTERS:
        raise FrameError(f"{name} is not text")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in said)
