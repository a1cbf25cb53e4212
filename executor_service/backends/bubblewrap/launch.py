"""Starts boxes: a small program, run by path, that forks for each box and becomes bubblewrap.

    python launch.py    takes requests from the socket that is its standard input

A request is what `marshal` writes of {"control_groups": [], "stage": [], "user": (1000, 1000),
"argv": []}, with descriptors: first the box's standard error, then those that bubblewrap gets from
number FIRST_FD on. The answer is the id of the process. The program ends with the socket, and the
boxes live on.

A box's process joins its control groups before anything of the box exists. If the executor is
root, it also gives up root, and first binds every staged path below /tmp in a mount namespace of
its own, because users cannot reach a path below /root. A staged item with a `size` is a new file
system in memory, whose number of files only root can limit. An argument that is a pair, an index
and a suffix, stands for the place of a staged item.
"""

import ctypes
import marshal
import os
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

FIRST_FD = 100
"""More than a new process has open."""
MOST_BYTES, MOST_FDS = 128 * 1024, 8
_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _CAP_SETFCAP = 23, 24, 31
_STAGE = "/tmp"  # noqa: S108 - a file system of our own that nobody else sees


def main() -> None:
    """Start a box for each request, until the socket is closed."""
    executor = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the boxes' processes
    with suppress(ConnectionError):  # the executor was killed
        while True:
            words, fds, _, _ = socket.recv_fds(executor, MOST_BYTES, MOST_FDS)
            if not words:
                return
            pid = os.fork()
            if pid == 0:
                _begin(words, fds)
            for fd in fds:
                os.close(fd)
            executor.send(b"%d" % pid)


def _begin(words: bytes, fds: Sequence[int]) -> None:
    """Handle a request in the process that is the box's; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for source, number in ((null, 0), (null, 1), (fds[0], 2), *zip(fds[1:], count(FIRST_FD))):
            os.dup2(source, number)
        os.closerange(3, FIRST_FD)
        _launch(marshal.loads(words))  # noqa: S302 - the executor's own words
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
    finally:
        os._exit(1)


def _launch(request: dict[str, Any]) -> None:
    for group in request["control_groups"]:
        _join(group)
    places = request["stage"]
    if request["user"] is not None:
        uid, gid = request["user"]
        places = _stage(request["stage"], uid, gid)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if uid == 0:
            _give_up_capabilities()
    argv = [_in_place(argument, places) for argument in request["argv"]]
    os.execve(argv[0], argv, {})  # noqa: S606 - this is what the program is for


def _join(group: str) -> None:
    fd = os.open(f"{group}/cgroup.procs", os.O_WRONLY)
    os.write(fd, b"0")
    os.close(fd)


def _give_up_capabilities() -> None:
    """Leave the next program only the capability to map root to another user in the box."""
    libc = ctypes.CDLL(None)
    capability = 0
    while libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        if capability != _CAP_SETFCAP:
            libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1


def _in_place(argument: str | list[Any], places: list[str]) -> str:
    if isinstance(argument, str):
        return argument
    index, suffix = argument
    return f"{places[index]}{suffix}"


def _stage(staged: list[Any], uid: int, gid: int) -> list[str]:
    """Mount everything staged at places that every user can reach."""
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result: int, what: str) -> None:
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{what}: {os.strerror(code)}")

    def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
        result = libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode(),
            ctypes.c_ulong(flags),
            options.encode(),
        )
        checked(result, f"mounting {source}")

    checked(libc.unshare(_CLONE_NEWNS), "a new mount namespace")
    mount("none", "/", "", _MS_REC | _MS_PRIVATE, "")
    opened = [_open(source) for source in staged]
    mount("tmpfs", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")
    places: list[str] = []
    for index, (source, fd) in enumerate(zip(staged, opened, strict=True)):
        place = f"{_STAGE}/{index}"
        if fd is None or stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(place)  # noqa: PTH102 - pathlib loads longer than all of this runs
        else:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        if fd is None:
            size, files, mode = source["size"], source["files"], source["mode"]
            options = f"size={size},nr_inodes={files},mode={mode},uid={uid},gid={gid}"
            mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
        else:
            mount(f"/proc/self/fd/{fd}", place, "", _MS_BIND | _MS_REC, "")
        places.append(place)
    return places


def _open(source: str | dict[str, Any]) -> int | None:
    """Open a path before something else is mounted over it; None for a new file system."""
    return os.open(source, os.O_PATH | os.O_CLOEXEC) if isinstance(source, str) else None


if __name__ == "__main__":
    main()
