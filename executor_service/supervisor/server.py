"""The supervisor itself: the table of commands, and the handlers of the executor's requests."""

from __future__ import annotations

import errno
import os
import time

from executor_service.supervisor import frames
from executor_service.supervisor.command import Command
from executor_service.supervisor.frames import FrameError
from executor_service.supervisor.spawn import StartRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from executor_service.supervisor.command import CommandContext
    from executor_service.supervisor.connection import Connection
    from executor_service.supervisor.loop import Timer
    from executor_service.supervisor.paths import Paths
    from executor_service.supervisor.proxy import Proxy
    from executor_service.supervisor.transfers import Transfers

_MAX_LIVE_COMMANDS = 128
_MAX_KNOWN_COMMANDS = 1024
_PATIENCE_S = 1.0
"""How long starts may fail for lack of processes before the largest command is ended."""

_START_ERRORS = {
    errno.ENOENT: "NOT_FOUND",
    errno.ENOTDIR: "NOT_FOUND",
    errno.EACCES: "PERMISSION_DENIED",
    errno.ENOEXEC: "NOT_EXECUTABLE",
    errno.E2BIG: "TOO_LONG",
    errno.ENAMETOOLONG: "TOO_LONG",
    errno.EAGAIN: "NO_PROCESSES",
    errno.EMFILE: "TOO_MANY_COMMANDS",
}


class Supervisor:
    """Serves one executor at a time, and outlives each."""

    def __init__(self, context: CommandContext, paths: Paths, orphan_timeout_s: float) -> None:
        self._context = context
        self._paths = paths
        self._orphan_timeout_s = orphan_timeout_s
        self._commands: dict[int, Command] = {}
        self._by_exec_id: dict[str, Command] = {}
        self._refused_since = self._refused_last = 0.0
        """When starts began to fail for lack of processes, and when one failed last."""
        self._transfers: Transfers | None = None
        self._orphan_timer: Timer | None = None
        self._proxy: Proxy | None = None
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            frames.START: self._start,
            frames.PING: lambda ident, _payload: self._context.send_json(frames.PONG, ident, {}),
        }
        self._of_commands: dict[int, Callable[[Command, memoryview], None]] = {
            frames.STDIN: self._stdin,
            frames.RESIZE: lambda command, payload: command.resize(frames.read_json(payload)),
            frames.SIGNAL: self._signal,
            frames.CANCEL: self._cancel,
            frames.ACK: self._ack,
            frames.FORGET: self._forget,
        }

    def serve(self) -> None:
        self._context.loop.on_children(self._reap)
        self._context.loop.run()

    def executor_came(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Accept an executor, which replaces the previous one, and send it all commands."""
        offsets: dict[str, list[int]] = hello["acked"]
        if self._context.connection is not None:
            self._context.connection.close()
        self._orphan_timeout_s = float(hello.get("orphan_timeout_s", self._orphan_timeout_s))
        if self._orphan_timer is not None:
            self._orphan_timer.cancel()
        self._context.connection = connection
        connection.handler = self._handle
        connection.on_closed = self.executor_left
        connection.on_drained = self._pump
        for command in self._commands.values():
            command.rewind(offsets.get(command.request.exec_id))
            self._describe(command)
        ready = {"version": frames.PROTOCOL_VERSION, "commands": len(self._commands)}
        self._context.send_json(frames.READY, 0, ready)
        for command in self._commands.values():
            command.resume()

    def executor_left(self) -> None:
        """Handle the loss of the executor; without a new one the box ends after a while."""
        self._context.connection = None
        if self._transfers is not None:
            self._transfers.close()
        if self._proxy is not None:
            self._proxy.executor_left()
        self._orphan_timer = self._context.loop.after(self._orphan_timeout_s, self._shut_down)

    def _shut_down(self) -> None:
        for command in self._commands.values():
            command.end("CANCELLED", grace_s=0)
        self._context.loop.stop()

    def _pump(self) -> None:
        for command in self._commands.values():
            command.pump()
        if self._transfers is not None:
            self._transfers.pump()
        if self._proxy is not None:
            self._proxy.pump()

    def _reap(self) -> None:
        """Reap ended processes: the first ones of commands, and orphans."""
        ended: list[tuple[int, int]] = []
        alone = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                alone = True
                break
            if pid == 0:
                break
            ended.append((pid, status))
        leaders = {command.leader: command for command in self._commands.values()}
        for pid, status in ended:
            command = leaders.get(pid)
            if command is not None:
                command.leader_reaped(status, alone)

    def _handle(self, kind: int, ident: int, payload: memoryview) -> None:
        if kind in self._of_commands:
            command = self._commands.get(ident)
            # A request may arrive for a command that was just forgotten.
            if command is not None:
                self._of_commands[kind](command, payload)
        else:
            if kind not in self._handlers:
                self._load(kind)
            self._handlers[kind](ident, payload)

    def _load(self, kind: int) -> None:
        """Add the handlers of a kind of requests that many boxes never get."""
        if kind in frames.FILE_REQUESTS:
            from executor_service.supervisor.transfers import Transfers

            self._transfers = Transfers(self._context, self._paths)
            self._handlers.update(self._transfers.handlers)
        elif kind in frames.PROXY_REQUESTS:
            from executor_service.supervisor.proxy import Proxy

            self._proxy = Proxy(self._context)
            self._handlers.update(self._proxy.handlers)

    def _start(self, ident: int, payload: memoryview) -> None:
        request = StartRequest(frames.read_json(payload))
        known = self._by_exec_id.get(request.exec_id)
        if known is not None:
            if known.request.digest != request.digest or known.ident != ident:
                self._start_failed(ident, "CONFLICT", "another command has this id")
            else:
                self._describe(known)
            return
        if ident in self._commands:
            raise FrameError("command number is in use")
        live = sum(command.state != "finished" for command in self._commands.values())
        if live >= _MAX_LIVE_COMMANDS:
            self._start_failed(ident, "TOO_MANY_COMMANDS", f"{live} commands are running")
            return
        self._make_room()
        command = Command(ident, request, self._context)
        try:
            command.launch()
        except OSError as error:
            command.abandon()
            if error.errno == errno.EAGAIN:
                self._miss_processes()
            code = _START_ERRORS.get(error.errno or 0, "FAILED")
            self._start_failed(ident, code, f"{error.strerror}: {error.filename or ''}")
        except ValueError as error:
            command.abandon()
            self._start_failed(ident, "INVALID", str(error))
        else:
            self._commands[ident] = self._by_exec_id[request.exec_id] = command
            self._describe(command)

    def _miss_processes(self) -> None:
        """Note a start that lacked processes; end the largest command if this goes on."""
        now = time.monotonic()
        if now - self._refused_last > _PATIENCE_S:
            self._refused_since = now
        self._refused_last = now
        if now - self._refused_since > _PATIENCE_S:
            self._end_biggest()

    def _end_biggest(self) -> None:
        running = [c for c in self._commands.values() if c.state == "running"]
        if running:
            max(running, key=Command.process_count).end("PIDS_LIMIT", grace_s=0)

    def _start_failed(self, ident: int, code: str, message: str) -> None:
        self._context.send_json(
            frames.START_FAILED, ident, {"code": code, "message": message.rstrip(": ")}
        )

    def _describe(self, command: Command) -> None:
        self._context.send_json(frames.COMMAND, command.ident, command.describe())

    def _make_room(self) -> None:
        """Forget the oldest finished commands when there are too many."""
        surplus = len(self._commands) - _MAX_KNOWN_COMMANDS + 1
        finished = [c for c in self._commands.values() if c.state == "finished"]
        for command in finished[: max(0, surplus)]:
            self._remove(command)

    def _remove(self, command: Command) -> None:
        del self._commands[command.ident]
        del self._by_exec_id[command.request.exec_id]

    def _stdin(self, command: Command, payload: memoryview) -> None:
        (offset, ends), data = frames.split_head(frames.STDIN_HEAD, payload)
        command.take_input(offset, data, bool(ends))

    def _signal(self, command: Command, payload: memoryview) -> None:
        command.signal(int(frames.read_json(payload)["signal"]))

    def _cancel(self, command: Command, payload: memoryview) -> None:
        message = frames.read_json(payload)
        command.end(message.get("reason") or "CANCELLED", message.get("grace_s"))

    def _ack(self, command: Command, payload: memoryview) -> None:
        (number, offset), _ = frames.split_head(frames.OUTPUT_HEAD, payload)
        command.ack(number, offset)

    def _forget(self, command: Command, _payload: memoryview) -> None:
        if command.state == "finished":
            self._remove(command)
