"""Makes, lists and ends boxes that are only processes of this machine, for one account.

    supervisor --keep FOLDER    answer one request of standard input in one line of standard output

`FOLDER/boxes/KEY` has a box's record, its supervisor's socket and error output, and its commands'
temporary files. A workspace is a folder that exists or one below `FOLDER/workspaces`; it stays.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

from executor_service.supervisor.frames import REMEMBERED
from executor_service.supervisor.processes import (
    boot_id,
    end_all,
    members_of,
    read_process,
    send_signal,
)
from executor_service.supervisor.trees import NAME, clear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from executor_service.supervisor.processes import Process

ANSWER = "hermes-keeper:"
"""Prefix of the answer's line, because a login shell may print something before it."""
WORKSPACES = "workspaces"
BOXES = "boxes"
_START_TIMEOUT_S = 15.0
_END_TIMEOUT_S = 5.0
_UNFINISHED_AFTER_S = 120.0
_BACKLOG = 8
_KEY = re.compile("[a-z0-9_]{1,64}")
_RECORD, _SOCKET, _ERRORS, _TMP = "box.json", "socket", "stderr", "tmp"


class KeeperError(Exception):
    """The request cannot be done; the message is for the operator."""


def main(argv: list[str]) -> int:
    """Run `--keep FOLDER`; return the exit status."""
    os.umask(0o077)
    try:
        answer = handle(Keeper(argv[1]), json.loads(sys.stdin.read()))
    except (KeeperError, OSError) as error:
        answer = {"error": str(error)}
    print(ANSWER + json.dumps(answer), flush=True)  # noqa: T201 - this is how it answers
    return 0


def handle(keeper: Keeper, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; fails with KeeperError or OSError."""
    if request["do"] == "start":
        return {"box": keeper.start(request)}
    if request["do"] == "list":
        return {"boxes": keeper.living(request["owner"])}
    if request["do"] == "end":
        keeper.end(request["key"], request["owner"])
        return {}
    raise KeeperError("the request is not known: {}".format(request["do"]))


class Keeper:
    """The boxes below one folder."""

    def __init__(self, folder: str) -> None:
        self._boxes = os.path.join(folder, BOXES)
        self._workspaces = os.path.join(folder, WORKSPACES)

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start a box's supervisor; return its record once it listens."""
        key, folder = request["key"], request["folder"]
        if not _KEY.fullmatch(key):
            raise KeeperError(f"{key!r} cannot be the key of a box")
        if os.path.isabs(folder):
            if not os.path.isdir(folder):
                raise KeeperError(f"the workspace {folder} is not a folder")
        elif folder and not NAME.fullmatch(folder):
            raise KeeperError(f"{folder!r} cannot be the name of a workspace")
        place = os.path.join(self._boxes, key)
        os.makedirs(self._boxes, mode=0o700, exist_ok=True)
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            raise KeeperError(f"there is a box {key} already") from None
        tmp = os.path.join(place, _TMP)
        os.mkdir(tmp, 0o700)
        workspace = os.path.join(self._workspaces, folder) if folder else tmp
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        try:
            return self._launch(request, place, workspace)
        except BaseException:
            _remove(place)
            raise

    def _launch(self, request: dict[str, Any], place: str, workspace: str) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        errors = os.open(os.path.join(place, _ERRORS), os.O_WRONLY | os.O_CREAT, 0o600)
        with ours, theirs, _listener(place) as listener:
            supervisor = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", sys.argv[0]),
                    *("--listen-fd", str(listener.fileno()), "--ready-fd", str(theirs.fileno())),
                    *("--box", request["key"], "--secret-sha256", request["secret_sha256"]),
                    *("--workspace", workspace, "--tmp", os.path.join(place, _TMP)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(listener.fileno(), theirs.fileno()),
                start_new_session=True,
                cwd="/",
            )
            os.close(errors)
            theirs.close()
            try:
                _await_ready(ours, place)
                record = _record(request, supervisor.pid, workspace)
                _store(place, record)
                ours.sendall(REMEMBERED)
            except BaseException:
                supervisor.kill()
                supervisor.wait()
                raise
            # The supervisor outlives this process, so Popen must not wait for it.
            supervisor.returncode = 0
            return record

    def living(self, owner: str) -> list[dict[str, Any]]:
        """Return the records of an owner's living boxes, and remove what is left of dead ones."""
        found: list[dict[str, Any]] = []
        with suppress(FileNotFoundError):
            for key in sorted(os.listdir(self._boxes)):
                place = os.path.join(self._boxes, key)
                record = _load(place)
                if record is None:
                    if _is_old(place):
                        self._end(key, None)
                elif record["owner"] != owner:
                    continue
                elif _supervisor_of(record) is not None:
                    found.append(record)
                else:
                    self._end(key, None)
        return found

    def end(self, key: str, owner: str) -> None:
        """Kill all processes of a box and remove it; no error if it is gone."""
        record = _load(os.path.join(self._boxes, key))
        if record is not None and record["owner"] != owner:
            raise KeeperError(f"box {key} belongs to another installation")
        self._end(key, None if record is None else _supervisor_of(record))

    def _end(self, key: str, supervisor: Process | None) -> None:
        if not _KEY.fullmatch(key):
            return
        if supervisor is not None:
            # A stopped supervisor starts nothing more but still adopts orphans.
            send_signal(supervisor, signal.SIGSTOP)
        left = end_all(lambda: members_of(key, supervisor), _END_TIMEOUT_S)
        if supervisor is not None and not left:
            left = end_all(lambda: _still(supervisor), _END_TIMEOUT_S)
            left += end_all(lambda: members_of(key, None), _END_TIMEOUT_S)
        if left:
            raise KeeperError(f"{left} processes of box {key} cannot be killed")
        place = os.path.join(self._boxes, key)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(place, _RECORD))
        _remove(place)


def users_of(folder: str, workspace: str) -> list[str]:
    """Return the keys of all owners' living boxes that use a workspace."""
    boxes = os.path.join(folder, BOXES)
    found: list[str] = []
    with suppress(FileNotFoundError):
        for key in sorted(os.listdir(boxes)):
            record = _load(os.path.join(boxes, key))
            if record is not None and record["folder"] == workspace and _supervisor_of(record):
                found.append(key)
    return found


def _listener(place: str) -> socket.socket:
    """Listen in a box's folder; the relative name avoids the kernel's limit on a socket's path."""
    os.chdir(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(_SOCKET)
    listener.listen(_BACKLOG)
    return listener


def _await_ready(supervisor: socket.socket, place: str) -> None:
    supervisor.settimeout(_START_TIMEOUT_S)
    try:
        said = supervisor.recv(1)
    except socket.timeout:
        raise KeeperError(f"the supervisor was not there in {_START_TIMEOUT_S:.0f} s") from None
    if not said:
        with open(os.path.join(place, _ERRORS), errors="replace") as errors:
            lines = errors.read().split("\n")
        why = next((line for line in reversed(lines) if line.strip()), "it says nothing")
        raise KeeperError(f"the supervisor ended at once: {why}")


def _record(request: dict[str, Any], pid: int, workspace: str) -> dict[str, Any]:
    supervisor = read_process(pid)
    if supervisor is None:
        raise KeeperError("the supervisor ended at once")
    known = {name: request[name] for name in ("key", "owner", "pool", "workspace")}
    place = {"folder": workspace, "socket": os.path.abspath(_SOCKET)}
    return {
        **known,
        **place,
        "pid": pid,
        "started_ticks": supervisor.started_ticks,
        "boot_id": boot_id(),
    }


def _store(place: str, record: dict[str, Any]) -> None:
    part = os.path.join(place, f".{_RECORD}")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(part, os.path.join(place, _RECORD))


def _load(place: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(place, _RECORD)) as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return None


def _supervisor_of(record: dict[str, Any]) -> Process | None:
    """Return a box's supervisor if it lives; a later process with its id does not count."""
    process = read_process(record["pid"])
    if process is None or process.state in "ZX" or record["boot_id"] != boot_id():
        return None
    return process if process.started_ticks == record["started_ticks"] else None


def _still(process: Process) -> list[Process]:
    now = read_process(process.pid)
    same = now is not None and now.identity == process.identity and now.state not in "ZX"
    return [process] if same else []


def _is_old(place: str) -> bool:
    """Whether an unfinished box was abandoned."""
    with suppress(FileNotFoundError):
        return time.time() - os.stat(place).st_mtime > _UNFINISHED_AFTER_S
    return False


def _remove(place: str) -> None:
    """Remove a box's folder; what cannot be removed stays until next time."""
    with suppress(OSError):
        clear(*os.path.split(place))
