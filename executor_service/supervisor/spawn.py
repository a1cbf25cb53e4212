"""Starts the first process of a command."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from contextlib import suppress
from typing import NamedTuple

from executor_service.supervisor.paths import Paths
from executor_service.supervisor.processes import MARKER_VARIABLE
from executor_service.supervisor.request import StartRequest, WindowSize

_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 256 * 1024
_TERMINAL_TYPE = "xterm"
"""The type that nearly every system knows; used if nobody names another."""
_OOM_SCORE_OF_COMMANDS = b"1000"
_CATCHABLE_SIGNALS = [
    number for number in range(1, signal.NSIG) if number not in (signal.SIGKILL, signal.SIGSTOP)
]
_CLASSIC_SIGNALS = [number for number in _CATCHABLE_SIGNALS if number < 32]


class Child(NamedTuple):
    """A started process and our ends of its streams; a terminal is one descriptor for all."""

    pid: int
    stdin: int | None
    stdout: int
    stderr: int | None


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
        cwd = self._paths.open_directory(request.cwd)
        opened: list[int] = []
        try:
            os.fchdir(cwd)
            program, request = _find_program(request, env.get("PATH", os.defpath))
            if request.terminal is None:
                return self._spawn_on_pipes(program, request, env, opened)
            return self._spawn_on_terminal(program, request, env, opened)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        finally:
            os.chdir("/")
            os.close(cwd)

    def _spawn_on_pipes(
        self, program: str, request: StartRequest, env: dict[str, str], opened: list[int]
    ) -> Child:
        stdin: int | None = None
        if request.stdin:
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
        pid = self._start(program, request, env, actions)
        for fd in (child_in, child_out, child_err):
            if fd is not None:
                opened.remove(fd)
                os.close(fd)
        return Child(pid, stdin, stdout, stderr)

    def _spawn_on_terminal(
        self, program: str, request: StartRequest, env: dict[str, str], opened: list[int]
    ) -> Child:
        ours, theirs = os.openpty()
        opened += [ours, theirs]
        assert request.terminal is not None
        resize_terminal(ours, request.terminal)
        os.set_blocking(ours, False)
        # A session leader without a terminal that opens one makes it its controlling terminal.
        name = os.ttyname(theirs)
        pid = self._start(
            program,
            request,
            env,
            [
                (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
        )
        os.close(theirs)
        # Two descriptors, because input and output are watched and closed separately.
        return Child(pid, os.dup(ours), ours, None)

    def _start(
        self,
        program: str,
        request: StartRequest,
        env: dict[str, str],
        actions: list[tuple[object, ...]],
    ) -> int:
        self._set_oom_score(_OOM_SCORE_OF_COMMANDS)
        try:
            return os.posix_spawn(
                program,
                request.argv,
                env,
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


def resize_terminal(fd: int, size: WindowSize) -> bool:
    """Set a terminal's size; return whether the kernel has sent SIGWINCH, which gVisor does not."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
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


def _find_program(request: StartRequest, search_path: str) -> tuple[str, StartRequest]:
    """Return the path of the program, and the request, which may now name the fallback."""
    name = request.argv[0]
    if "/" in name:
        return name, request
    for folder in search_path.split(os.pathsep) if name else ():
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate, request
    if request.fallback:
        argv = [request.fallback, *request.argv[1:]]
        return _find_program(request._replace(argv=argv, fallback=""), search_path)
    raise FileNotFoundError(2, "No such file or directory", name)
