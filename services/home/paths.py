"""The folders and files under `HERMES_HOME`, and their permissions.

The home belongs to the user and may be older than this program, so its own mode is kept; the
folders that services create in it are for the owner only.
"""

import errno
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument

MAX_SOCKET_PATH_BYTES = 107
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


DEFAULT_PROFILE = "default"

_PROFILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class HomeError(FailedPrecondition):
    """The home cannot be used as it is; the message is one line that says what to do."""


class _Inside:
    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, home: "HomePaths", _kind: type) -> Path:
        return home.root / self._path


class HomePaths(Struct, frozen=True):
    """The files and folders of one home."""

    root: Path
    """Absolute."""
    runtime_base: Path
    """The parent of the socket's folder if the home's own path is too long for a socket."""
    name: str = DEFAULT_PROFILE
    """The profile whose home it is."""

    config = _Inside("config.yaml")
    env = _Inside(".env")
    """Keys and tokens, one NAME=value a line."""
    auth = _Inside("auth.json")
    """Tokens of device logins."""
    soul = _Inside("SOUL.md")
    """The agent's identity."""
    memories = _Inside("memories")
    """MEMORY.md and USER.md."""
    skills = _Inside("skills")
    received = _Inside("received")
    """Files that came with messages to a terminal."""
    distributions = _Inside("distributions.yaml")
    """How likely items of batches have each toolset."""
    cron = _Inside("cron")
    """jobs.json and the output of runs."""
    environments = _Inside("environments")
    """Tasks for training and evaluation, a JSONL file for each environment."""
    hooks = _Inside("hooks")
    sessions = _Inside("sessions")
    """Transcripts as JSON."""
    logs = _Inside("logs")
    state = _Inside("state")
    """The services' databases."""
    run = _Inside("run")
    """Tokens, locks and the socket of the running services."""
    workspaces = _Inside("workspaces")
    """The sessions' files, mounted into their sandboxes."""

    @property
    def whole(self) -> Path:
        """The folder of all profiles."""
        return self.root if self.name == DEFAULT_PROFILE else self.root.parents[1]

    @property
    def socket(self) -> Path:
        """The Unix socket of the services that run in one process."""
        inside = self.run / "hermes.sock"
        if len(os.fsencode(inside)) <= MAX_SOCKET_PATH_BYTES:
            return inside
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return self.runtime_base / f"hermes-{os.geteuid()}-{digest}" / "hermes.sock"

    def database(self, service: str) -> Path:
        return self.state / f"{service}.db"

    def profile(self, name: str) -> "HomePaths":
        """Return the home of another profile of this home."""
        if name in (DEFAULT_PROFILE, self.name):
            return self
        if not is_profile_name(name):
            msg = f"profile {name!r}: a name has letters, digits, - and _, and at most 64 of them"
            raise HomeError(msg)
        return HomePaths(self.root / "profiles" / name, self.runtime_base, name)

    def create(self) -> None:
        """Create the folders that services need; raise HomeError with what to do if that fails."""
        _make(self.root)
        _check_writable(self.root)
        for folder in (self.state, self.logs, self.workspaces):
            _make(folder)
            _check_writable(folder)
        private_folder(self.run)
        socket = self.socket
        if len(os.fsencode(socket)) > MAX_SOCKET_PATH_BYTES:
            msg = (
                f"{socket}: a socket's path may have {MAX_SOCKET_PATH_BYTES} bytes; "
                "set XDG_RUNTIME_DIR or HERMES_HOME to a shorter folder"
            )
            raise HomeError(msg)
        if socket.parent != self.run:
            private_folder(socket.parent)


def is_profile_name(name: str) -> bool:
    """Return whether a profile may have this name."""
    return _PROFILE_NAME.fullmatch(name) is not None


def expand(path: str) -> Path:
    """Return a path, with the home of its user for `~`; raises InvalidArgument without one."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):
        raise InvalidArgument(f"{path} begins with the name of a user who is not there") from None


def check_place(file: Path) -> None:
    """Make the folder of a file that is written later; raises HomeError if it cannot be written."""
    target = Path(os.path.realpath(file))
    if target.is_dir():
        raise HomeError(f"{target} is a folder; name a file")
    _make(target.parent)
    _check_writable(target.parent)


def private_folder(path: Path) -> None:
    """Create a folder that only we can enter, without following links, or raise HomeError."""
    _make(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise HomeError(f"{path} is not a folder (a link?); remove it and start again")
    if found.st_uid != os.geteuid():
        msg = (
            f"{path} belongs to user id {found.st_uid} and not to {os.geteuid()}; "
            "run as that user, or remove the folder"
        )
        raise HomeError(msg)
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
        if stat.S_IMODE(path.lstat().st_mode) & 0o077:
            msg = f"{path} cannot be made private here; set HERMES_HOME to a local file system"
            raise HomeError(msg)


def replace_file(path: Path, content: str | bytes, mode: int) -> None:
    """Write a file atomically: readers see the old or the new one, never a part."""
    with replacement(path, mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacement(path: Path, mode: int) -> Generator[IO[bytes]]:
    """Yield what replaces a file at the end of the block, unless that fails."""
    target = Path(os.path.realpath(path))  # keep a link into the user's dotfiles
    _make(target.parent)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.errno in _NO_PERMISSION:
            raise HomeError(_no_permission(target.parent)) from None
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise HomeError(f"no space is left for {target}; free some and try again") from None
        raise HomeError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise HomeError(f"{path} cannot be made: a file is in its place; move it away") from None
    except OSError as error:
        if error.errno in _NO_PERMISSION:
            raise HomeError(_no_permission(path)) from None
        raise HomeError(f"{path} cannot be made: {error.strerror}") from None


def _check_writable(path: Path) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise HomeError(_no_permission(path))


def _no_permission(path: Path) -> str:
    elsewhere = "or set HERMES_HOME to a folder that you own"
    with suppress(OSError):
        there = next(each for each in (path, *path.parents) if each.exists())
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            return f"{path} is on a read-only file system; mount it writable, {elsewhere}"
        if there.stat().st_uid == os.geteuid():
            return f"no permission to write to {path}; allow it (chmod u+rwx), {elsewhere}"
    return f"no permission to write to {path}; make it yours (chown), {elsewhere}"
