"""One command from its start to its exit report."""

from __future__ import annotations

import os
import time

from executor_service.supervisor import frames
from executor_service.supervisor.light import signal, suppress
from executor_service.supervisor.loop import WRITABLE
from executor_service.supervisor.spawn import resize_terminal
from executor_service.supervisor.streams import InputStream, Outputs, OutputStream
from executor_service.supervisor.tree import Forest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from executor_service.supervisor.connection import Connection
    from executor_service.supervisor.frames import Buffer
    from executor_service.supervisor.loop import Loop, Timer
    from executor_service.supervisor.spawn import Spawner, StartRequest

_EVENTS_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_DRAIN_GRACE_S = 0.3
"""How long to wait for output of processes that outlive the first one."""


class OomCounter:
    """The kernel's count of out-of-memory kills, if the box sees its control group."""

    def __init__(self) -> None:
        self._fd: int | None = None
        for path in _EVENTS_FILES:
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            break

    def read(self) -> int:
        """Return the count since the box began; 0 if it cannot be seen."""
        if self._fd is None:
            return 0
        for line in os.pread(self._fd, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0


class CommandContext:
    """What all commands of a box share."""

    def __init__(self, loop: Loop, spawner: Spawner) -> None:
        self.loop = loop
        self.spawner = spawner
        self.forest = Forest(loop)
        self.oom_counter = OomCounter()
        self.connection: Connection | None = None

    def send(self, kind: int, ident: int, *parts: Buffer) -> None:
        """Send a frame, if an executor is there."""
        if self.connection is not None:
            self.connection.send(frames.header(kind, ident, *parts), *parts)

    def send_json(self, kind: int, ident: int, message: dict[str, Any]) -> None:
        if self.connection is not None:
            self.connection.send(frames.pack_json(kind, ident, message))


class Command:
    """Runs one command, whose state is running and then finished."""

    def __init__(self, ident: int, request: StartRequest, context: CommandContext) -> None:
        self.ident = ident
        self.request = request
        self.state = "running"
        self.leader: int | None = None
        """Process id of the first process until it is reaped."""
        self._context = context
        self._tree = context.forest.add_tree()
        self._outputs = Outputs(context.loop, [], self.pump)
        self._stdin = InputStream(None, is_terminal=False)
        self._stdin_told = 0
        self._timers: dict[str, Timer] = {}
        self._started_at = 0.0
        self._oom_kills_before = 0
        self._reason = ""
        self._status: int | None = None
        """How the first process ended, as waitpid tells."""
        self._survivors: int | None = None
        """Processes that could not be killed; None while some may still run."""
        self._stays = False
        self._exit: dict[str, Any] = {}
        self._exit_sent = False

    def launch(self) -> None:
        """Start the first process; fails with OSError or ValueError."""
        context = self._context
        self._oom_kills_before = context.oom_counter.read()
        pid, stdin, stdout, stderr = context.spawner.spawn(self.request, self._tree.marker)
        self._started_at = time.monotonic()
        self.leader = pid
        self._tree.leader_started(pid)
        self._stdin = InputStream(stdin, self.request.terminal is not None)
        streams = [OutputStream(1, stdout)]
        if stderr is not None:
            streams.append(OutputStream(2, stderr))
        self._outputs = Outputs(context.loop, streams, self.pump)
        self._outputs.on_all_closed = self._outputs_closed
        if self.request.run_timeout_s is not None:
            self._after("timeout", self.request.run_timeout_s, lambda: self.end("TIMEOUT"))

    def abandon(self) -> None:
        self._context.forest.remove_tree(self._tree)

    def process_count(self) -> int:
        return len(self._tree.members())

    def end(self, reason: str, grace_s: float | None = None) -> None:
        """End the whole tree: SIGTERM now, SIGKILL after the grace period."""
        if self.state != "running" or self._survivors is not None:
            return
        self._reason = self._reason or reason
        grace_s = self.request.kill_grace_s if grace_s is None else grace_s
        if self._status is not None or grace_s <= 0:
            self._kill()
        else:
            self._tree.signal_all(signal.SIGTERM)
            self._after("kill", grace_s, self._kill)

    def signal(self, number: int) -> None:
        self._tree.signal_group(number)

    def resize(self, size: dict[str, int]) -> None:
        """Change the size of the terminal, if there is one."""
        if self.request.terminal is not None and self._stdin.fd is not None:
            with suppress(OSError):  # the terminal has no user any more
                if not resize_terminal(self._stdin.fd, size):
                    # Processes that do not handle it ignore it.
                    self._tree.signal_all(signal.SIGWINCH)

    def take_input(self, offset: int, data: memoryview, ends: bool) -> None:
        """Queue standard input and write what the command reads."""
        self._stdin.receive(offset, data, ends)
        self._write_input()

    def ack(self, number: int, offset: int) -> None:
        """Record how much of a stream the executor has, and read more."""
        self._outputs.ack(number, offset)
        self._read_on()

    def describe(self) -> dict[str, Any]:
        """Return what an executor needs to take over this command."""
        return {
            "exec_id": self.request.exec_id,
            "digest": self.request.digest,
            "state": self.state,
            "acked": self._outputs.acked(),
            "stdin_received": self._stdin.received,
            "stdin_taken": self._stdin.written,
        }

    def rewind(self, acked: list[int] | None) -> None:
        """Start again from the offsets that a new executor has; also repeat the exit."""
        self._outputs.rewind(acked or self._outputs.acked())
        self._exit_sent = False
        self._stdin_told = self._stdin.written

    def resume(self) -> None:
        """Continue reading after the new executor learned of the command."""
        self._read_on()
        self.pump()

    def pump(self) -> None:
        """Send output as far as possible, then the exit."""
        connection = self._context.connection
        if connection is None:
            return
        self._outputs.send(connection, self.ident)
        if self.state == "finished" and self._outputs.all_sent and not self._exit_sent:
            self._exit_sent = True
            self._context.send_json(frames.EXITED, self.ident, self._exit)

    def _write_input(self) -> None:
        stdin, loop = self._stdin, self._context.loop
        if stdin.fd is not None:
            if not stdin.write():
                self._close_input()
            elif stdin.waiting:
                loop.watch(stdin.fd, WRITABLE, lambda _events: self._write_input())
            else:
                loop.unwatch(stdin.fd)
        if self._context.connection is not None and stdin.written > self._stdin_told:
            self._stdin_told = stdin.written
            body = frames.STDIN_ACK_BODY.pack(stdin.written)
            self._context.send(frames.STDIN_ACK, self.ident, body)

    def _close_input(self) -> None:
        fd, self._stdin.fd = self._stdin.fd, None
        self._stdin.abandon()
        if fd is not None:
            self._context.loop.unwatch(fd)
            os.close(fd)

    def leader_reaped(self, status: int, alone: bool) -> None:
        """Record the first process's end; alone means that no process of any command is left."""
        self._status = status
        self.leader = None
        self._tree.leader_lives = False
        self._cancel("timeout")
        if alone or not self._tree.members():
            self._settle(survivors=0)
        elif self._outputs.all_closed:
            self._end_leftovers()
        elif not self._tree.killing:
            self._after("drain", _DRAIN_GRACE_S, self._end_leftovers)

    def _read_on(self) -> None:
        if self._survivors is None:
            self._outputs.watch()
        else:
            self._finish_when_drained()

    def _outputs_closed(self) -> None:
        if self._status is not None and self._survivors is None:
            self._end_leftovers()

    def _end_leftovers(self) -> None:
        """Handle processes that outlive the first one and its grace time."""
        if self.request.leave_children and not self._reason:
            self._stays = True
            self._settle(survivors=0)
        else:
            self._kill()

    def _kill(self) -> None:
        self._cancel("kill")
        self._cancel("drain")
        self._tree.kill(self._settle)

    def _settle(self, survivors: int) -> None:
        """Finish once the remaining output is read; no writer is awaited any more."""
        if self._survivors is not None:
            return
        for name in list(self._timers):
            self._cancel(name)
        self._survivors = survivors
        self._finish_when_drained()

    def _finish_when_drained(self) -> None:
        if self.state == "finished" or not self._outputs.drain(keep_open=self._stays):
            return
        self.state = "finished"
        self._close_input()
        self._tree.is_detached = self._stays
        if not self._stays:
            self._context.forest.remove_tree(self._tree)
        code = killed_by = None
        if self._status is not None:
            if os.WIFSIGNALED(self._status):
                killed_by = os.WTERMSIG(self._status)
            else:
                code = os.WEXITSTATUS(self._status)
        self._exit = {
            "code": code,
            "signal": killed_by,
            "reason": self._reason or self._natural_reason(code, killed_by),
            "totals": self._outputs.ends(),
            "survivors": self._survivors,
            "duration_ms": int((time.monotonic() - self._started_at) * 1000),
        }
        self.pump()

    def _natural_reason(self, code: int | None, killed_by: int | None) -> str:
        by_kernel = killed_by == signal.SIGKILL or code == 128 + signal.SIGKILL
        if by_kernel and self._context.oom_counter.read() > self._oom_kills_before:
            return "OOM"
        return "EXITED" if killed_by is None else "SIGNALED"

    def _after(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        self._cancel(name)
        self._timers[name] = self._context.loop.after(delay_s, call)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
