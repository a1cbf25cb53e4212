"""Connects standard input and output to the supervisor's socket, for engines and shells that can
only run a program in the box. Each connection starts one, so this module imports little.
"""

from __future__ import annotations

import fcntl
import os
import select
import time

from executor_service.supervisor.light import socket, suppress
from executor_service.supervisor.syscalls import hide_from_same_user

GREETING = b"supervisor-bridge\n"
"""Sent once connected; tells the bridge's output from an error of what runs it."""
NO_SUPERVISOR = b"no-supervisor\n"
"""Sent when nothing listens at the socket."""
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1024 * 1024
_READ_BYTES = 256 * 1024
_WAIT_FOR_SOCKET_S = 10.0
_POLL_S = 0.005


class _Route:
    """One direction, with bytes read but not yet written."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        self.pending = memoryview(b"")


def socket_address(path: str) -> str:
    """Return the address of a path; `@name` is an abstract socket."""
    return "\0" + path[1:] if path.startswith("@") else path


def main(argv: list[str]) -> int:
    """Run `--bridge PATH [--once]`; return the exit status."""
    hide_from_same_user()
    return bridge(argv[1], 0.0 if argv[2:] == ["--once"] else _WAIT_FOR_SOCKET_S)


def bridge(path: str, wait_s: float) -> int:
    """Copy both ways until either side ends; return the exit status."""
    try:
        sock = _connect(path, wait_s)
    except OSError:
        os.write(1, NO_SUPERVISOR)
        return 1
    try:
        os.write(1, GREETING)
        _copy_until_end(sock.fileno())
    except OSError:
        return 1
    return 0


def _copy_until_end(sock: int) -> None:
    routes = (_Route(0, sock), _Route(sock, 1))
    for fd in (0, 1, sock):
        os.set_blocking(fd, False)
    with suppress(OSError):  # not a pipe, or the user has too much pipe memory
        fcntl.fcntl(1, _F_SETPIPE_SZ, _PIPE_BYTES)
    while True:
        readers = [route.source for route in routes if not route.pending]
        writers = [route.target for route in routes if route.pending]
        readable, writable, _ = select.select(readers, writers, [])
        for route in routes:
            if route.source in readable and not route.pending:
                route.pending = memoryview(os.read(route.source, _READ_BYTES))
                if not route.pending:
                    return
            if route.pending and (route.target in writable or route.source in readable):
                with suppress(BlockingIOError):
                    sent = os.write(route.target, route.pending)
                    route.pending = route.pending[sent:]


def _connect(path: str, wait_s: float) -> socket.socket:
    give_up_at = time.monotonic() + wait_s
    folder, name = os.path.split(path)
    if folder:
        # Connect from inside the folder: the kernel limits an address to about 100 characters.
        os.chdir(folder)
    address = socket_address(name)
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(address)
        except OSError:
            sock.close()
            if time.monotonic() > give_up_at:
                raise
            time.sleep(_POLL_S)
        else:
            return sock
