"""Starts the first process of a command."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from executor_service.supervisor.light import signal, suppress
from executor_service.supervisor.processes import MARKER_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from executor_service.supervisor.paths import Paths

    Child = Tuple[int, Optional[int], int, Optional[int]]
    """A started process's id, and our ends of its standard input, output and error."""
    Program = Tuple[str, List[str], Dict[str, str]]
    """Its path, arguments and environment."""

_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 256 * 1024
_TERMINAL_TYPE = "xterm"
"""The type that nearly every system knows; used if nobody names another."""
_OOM_SCORE_OF_COMMANDS = b"1000"
_CATCHABLE_SIGNALS = [
    number for number in range(1, signal.NSIG) if number not in (signal.SIGKILL, signal.SIGSTOP)
]
_CLASSIC_SIGNALS = [number for number in _CATCHABLE_SIGNALS if number < 32]


class StartRequest:
    """A command to run, with the fields of a START frame."""

    exec_id: str
    digest: str
    """Identifies the request: the same id with another digest is another command."""
    argv: list[str]
    fallback: str
    """Program to run if the first one does not exist."""
    cwd: str
    env: dict[str, str]
    terminal: dict[str, int] | None
    """Its rows and columns."""
    stdin: bool
    """Whether input will come."""
    run_timeout_s: float | None
    kill_grace_s: float
    leave_children: bool
    """Let processes that outlive the first one stay, instead of killing them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)


class Spawner:
    """Starts children with default signals, a session of their own and none of our descriptors.

    A start briefly changes this process's folder and OOM score, so it must have only one thread.
    In return, a start is cheap and its errors are exact.
    """

    def __init__(self, paths: Paths, base_env: dict[str, str]) -> None:
        self._paths = paths
        self.base_env = base_env
        self.extra_env: dict[str, str] = {}
        """Added to base_env for commands that start now."""
        self._oom_score = _open_oom_score()
        self._own_oom_score = b"0"
        if self._oom_score is not None:
            self._own_oom_score = os.pread(self._oom_score, 16, 0).strip()

    def spawn(self, request: StartRequest, marker: str) -> Child:
        type_ = {} if request.terminal is None else {"TERM": _TERMINAL_TYPE}
        env = {**type_, **self.base_env, **self.extra_env, **request.env, MARKER_VARIABLE: marker}
        cwd = self._paths.open_directory(request.cwd or ".")
        opened: list[int] = []
        try:
            os.fchdir(cwd)
            program, argv = _find_program(request, env.get("PATH", os.defpath))
            if request.terminal is None:
                return self._spawn_on_pipes((program, argv, env), request.stdin, opened)
            return self._spawn_on_terminal((program, argv, env), request.terminal, opened)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        finally:
            os.chdir("/")
            os.close(cwd)

    def _spawn_on_pipes(self, program: Program, has_stdin: bool, opened: list[int]) -> Child:
        stdin: int | None = None
        if has_stdin:
            child_in, stdin = _pipe(opened)
            actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, child_in, 0)]
            os.set_blocking(stdin, False)
        else:
            child_in = None
            actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        stdout, child_out = _pipe(opened)
        stderr, child_err = _pipe(opened)
        for fd in (stdout, stderr):
            os.set_blocking(fd, False)
        actions += [(os.POSIX_SPAWN_DUP2, child_out, 1), (os.POSIX_SPAWN_DUP2, child_err, 2)]
        pid = self._start(program, actions)
        for fd in (child_in, child_out, child_err):
            if fd is not None:
                opened.remove(fd)
                os.close(fd)
        return pid, stdin, stdout, stderr

    def _spawn_on_terminal(
        self, program: Program, size: dict[str, int], opened: list[int]
    ) -> Child:
        ours, theirs = os.openpty()
        opened += [ours, theirs]
        resize_terminal(ours, size)
        os.set_blocking(ours, False)
        # A session leader without a terminal that opens one makes it its controlling terminal.
        name = os.ttyname(theirs)
        pid = self._start(
            program,
            [
                (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
        )
        os.close(theirs)
        # Two descriptors, because input and output are watched and closed separately.
        return pid, os.dup(ours), ours, None

    def _start(self, program: Program, actions: list[tuple[object, ...]]) -> int:
        self._set_oom_score(_OOM_SCORE_OF_COMMANDS)
        try:
            return os.posix_spawn(
                *program,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_CLASSIC_SIGNALS,
            )
        finally:
            self._set_oom_score(self._own_oom_score)

    def _set_oom_score(self, score: bytes) -> None:
        if self._oom_score is None:
            return
        try:
            os.pwrite(self._oom_score, score, 0)
        except OSError:
            # Some sandboxes show the file but refuse the change.
            os.close(self._oom_score)
            self._oom_score = None


def resize_terminal(fd: int, size: dict[str, int]) -> bool:
    """Set a terminal's size; return whether the kernel has sent SIGWINCH, which gVisor does not."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["columns"], 0, 0))
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    return True


def _open_oom_score() -> int | None:
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened += ends
    with suppress(OSError):  # over the user's limit of pipe memory, the default size must do
        fcntl.fcntl(ends[0], _F_SETPIPE_SZ, _PIPE_BYTES)
    return ends


def _find_program(request: StartRequest, search_path: str) -> tuple[str, list[str]]:
    """Return the path of the program and its arguments, which may name the fallback."""
    for name in filter(None, (request.argv[0], request.fallback)):
        argv = [name, *request.argv[1:]]
        if "/" in name:
            return name, argv
        for folder in search_path.split(os.pathsep):
            candidate = os.path.join(folder or ".", name)
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate, argv
    raise FileNotFoundError(2, "No such file or directory", request.argv[0])
