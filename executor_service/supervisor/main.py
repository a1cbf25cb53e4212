"""The supervisor's command line.

    supervisor --listen-fd N --box KEY --secret-sha256 HEX    serve a box
    supervisor --socket PATH [--handover PATH] --box … …      serve it at a socket
    supervisor --bridge PATH [--once]                         join standard streams to a socket
    supervisor --keep FOLDER                                  make, list and end boxes
    supervisor --folders REQUEST                              work on workspaces

PATH may be `@name` for an abstract socket.
"""

from __future__ import annotations

import os
import resource
import struct
import sys

from executor_service.supervisor.bridge import socket_address
from executor_service.supervisor.command import CommandContext
from executor_service.supervisor.connection import Handshake
from executor_service.supervisor.frames import REMEMBERED
from executor_service.supervisor.light import signal, socket, suppress
from executor_service.supervisor.loop import Loop
from executor_service.supervisor.paths import Paths
from executor_service.supervisor.processes import BOX_VARIABLE, descendants_of, end_all
from executor_service.supervisor.server import Supervisor
from executor_service.supervisor.spawn import Spawner
from executor_service.supervisor.syscalls import (
    adopt_orphans,
    filter_system_calls,
    hide_from_same_user,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

_NUMBERS: dict[str, Callable[[str], float]] = {
    "listen_fd": int,
    "orphan_timeout_s": float,
    "ready_fd": int,
    "filter_fd": int,
    "max_processes": int,
}
_BACKLOG = 8
_FIRST_PROCESS = 1
_END_TIMEOUT_S = 5.0
_DESCRIPTOR = struct.Struct("i")
_KEPT_VARIABLES = (
    *("PATH", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE"),
)
"""Variables of the machine that commands get if the box shares it."""


class Options:
    """The command line; the field `listen_fd` is the option `--listen-fd N`."""

    listen_fd: int | None = None
    socket: str = ""
    handover: str = ""
    """Where to ask the executor for a listening socket to use instead of `socket`."""
    box: str = ""
    secret_sha256: str = ""
    workspace: str = "/workspace"
    tmp: str = ""
    """Folder for temporary files, if the box shares its machine."""
    orphan_timeout_s: float = 1800.0
    ready_fd: int | None = None
    """A socket: the supervisor sends a byte when ready, and gets one when the box is recorded."""
    filter_fd: int | None = None
    """A system call filter to load, if the program that makes the box cannot."""
    max_processes: int = 0
    """Per user namespace: Linux >= 5.14."""


def _read_options(argv: Sequence[str]) -> Options:
    """Parse a command line of a backend."""
    options = Options()
    for option, value in zip(argv[::2], argv[1::2]):
        name = option[2:].replace("-", "_")
        setattr(options, name, _NUMBERS.get(name, str)(value))
    return options


def main(argv: list[str]) -> int:
    """Run the program; return its exit status."""
    if "--help" in argv:
        sys.stdout.write(str(__doc__))
        return 0
    return _serve(_read_options(argv))


def _serve(options: Options) -> int:
    if options.filter_fd is not None:
        with open(options.filter_fd, "rb") as program:
            filter_system_calls(program.read())
    os.chdir("/")
    os.umask(0o022)
    loop = Loop()
    paths = Paths(options.workspace)
    # The spawner opens /proc files of its own, which belong to root once this process is hidden.
    spawner = Spawner(paths, _environment(options))
    hide_from_same_user()
    adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options.max_processes:
        limit = options.max_processes
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if os.getpid() != _FIRST_PROCESS:
        # As a first process, it ignores SIGTERM from inside its box as long as it has no handler.
        signal.signal(signal.SIGTERM, lambda _number, _frame: loop.stop())
    context = CommandContext(loop, spawner)
    supervisor = Supervisor(context, paths, options.orphan_timeout_s)
    supervisor.executor_left()
    listener = _listener(options)
    Handshake(loop, listener, options.box, options.secret_sha256, supervisor.executor_came)
    if options.ready_fd is not None and not _wait_remembered(options.ready_fd):
        return 1
    supervisor.serve()
    context.forest.kill_everything()
    if os.getpid() != _FIRST_PROCESS:
        # Without a first process of its own, nothing else ends the box's other processes.
        return min(1, end_all(lambda: descendants_of(os.getpid()), _END_TIMEOUT_S))
    return 0


def _environment(options: Options) -> dict[str, str]:
    if not options.tmp:
        # A kubelet adds the address of the API server to every container.
        return {
            name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")
        }
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    places = {"HOME": options.workspace, "TMPDIR": options.tmp, BOX_VARIABLE: options.box}
    return {"PATH": os.defpath, **kept, **places}


def _wait_remembered(ready_fd: int) -> bool:
    """Report that the box is ready; False if the executor is gone."""
    try:
        os.write(ready_fd, b"1")
        return os.read(ready_fd, 1) == REMEMBERED
    except OSError:
        return False
    finally:
        os.close(ready_fd)


def _listener(options: Options) -> socket.socket:
    if options.listen_fd is not None:
        os.set_inheritable(options.listen_fd, False)
        return socket.socket(fileno=options.listen_fd)
    if options.handover:
        with suppress(OSError):
            return _receive_listener(options.handover, options.orphan_timeout_s)
    if not options.socket.startswith("@"):
        with suppress(FileNotFoundError):
            os.unlink(options.socket)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(socket_address(options.socket))
    if not options.socket.startswith("@"):
        os.chmod(options.socket, 0o600)
    listener.listen(_BACKLOG)
    return listener


def _receive_listener(path: str, timeout_s: float) -> socket.socket:
    executor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    executor.settimeout(timeout_s)
    executor.connect(path)
    room = socket.CMSG_SPACE(_DESCRIPTOR.size)
    _, handed, _, _ = executor.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    executor.close()
    if not handed:
        raise ConnectionResetError("the executor has gone")
    (descriptor,) = _DESCRIPTOR.unpack(handed[0][2])
    return socket.socket(fileno=descriptor)
