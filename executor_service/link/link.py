"""The link itself: the hello, the table of commands, and the dispatch of frames."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct, field

from executor_service.errors import (
    BoxPoisoned,
    ExecutorError,
    LinkClosed,
    LinkRefused,
    StartRefused,
)
from executor_service.link.byte_streams import ByteStream
from executor_service.link.exec_handle import CommandSink, ExecHandle
from executor_service.link.files import RemoteFiles
from executor_service.link.messages import CommandState, StartCommand, read, read_number, read_text
from executor_service.link.outbox import Outgoing
from executor_service.link.streams import RemoteStreams
from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError, FrameReader
from services.config.redacted_repr import RedactedRepr

_READ_BYTES = 256 * 1024
_READ_BEFORE_OTHERS_BYTES = 1024 * 1024
_MAX_COMMANDS = 2048
_MAX_IDENT = 1 << 31
_HELLO_TIMEOUT_S = 15.0
_START_RETRY_S = 0.1
_START_WITHIN_S = 10.0

Adopt = Callable[[ExecHandle], CommandSink | None]
"""Returns the sink of a command; None ends the command."""


class Hello(RedactedRepr, frozen=True):
    """The executor's first message."""

    unshown = ("secret",)

    box_key: str
    secret: str
    epoch: int
    """The box refuses an epoch lower than one it has seen, and closes its previous link."""
    acked: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By exec id, the bytes of stdout and stderr that are stored; output continues from there."""
    orphan_timeout_s: float | None = None
    """How long the box lives without an executor; None leaves that to the box."""


class _Starting(Struct, frozen=True):
    request: StartCommand
    adopt: Adopt


class SupervisorLink:
    """Speaks with one box's supervisor over one stream; made by open_link."""

    def __init__(self, stream: ByteStream, hello: Hello, adopt: Adopt) -> None:
        self.commands: dict[str, ExecHandle] = {}
        """By exec id, all commands that the box knows, until they are forgotten."""
        self.error: ExecutorError | None = None
        """How the link ended; None while it lives."""
        self._outgoing = Outgoing(stream)
        self.files = RemoteFiles(self._outgoing)
        self.streams = RemoteStreams(self._outgoing)
        self._stream = stream
        self._hello = hello
        self._adopt = adopt
        self._ended = asyncio.Event()
        self._is_ready = False
        self._unheard: set[int] = set()
        """Commands that ended before this link and whose exits have not arrived yet."""
        self._caught_up = asyncio.Event()
        self._by_ident: dict[int, ExecHandle] = {}
        self._starting: dict[int, _Starting] = {}
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            frames.READY: self._on_ready,
            frames.DENIED: self._on_denied,
            frames.COMMAND: self._on_command,
            frames.START_FAILED: self._on_start_failed,
            frames.OUTPUT: lambda ident, payload: self._command(ident).on_output(payload),
            frames.STDIN_ACK: lambda ident, payload: self._command(ident).on_stdin_ack(payload),
            frames.EXITED: self._on_exited,
            frames.PONG: lambda ident, _: self._outgoing.resolve(frames.PING, ident, None),
            frames.FILE_BYTES: self.files.on_bytes,
            frames.FILE_DONE: self.files.on_done,
            frames.FILE_FAILED: self.files.on_failed,
            **self.streams.handlers,
        }

    async def start(self, request: StartCommand, adopt: Adopt) -> ExecHandle:
        """Start a command; if that succeeds, adopt is called before its first output.

        If the box has this id with the same request, its handle is returned; adopt is not called.
        Fails with StartRefused if the box cannot start it or has another request with this id, or
        with the link's error; then the next link's table tells whether the command was started.
        """
        if self.error is not None:
            raise self.error
        message = request.to_wire()
        known = self.commands.get(request.exec_id)
        if known is not None:
            if known.state.digest != message["digest"]:
                raise StartRefused("CONFLICT", f"{request.exec_id} is another command")
            return known
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _START_WITHIN_S
        while True:
            ident = self._outgoing.new_ident()
            answer = self._outgoing.expect(frames.START, ident)
            self._starting[ident] = _Starting(request, adopt)
            self._outgoing.send_json(frames.START, ident, message)
            try:
                return await answer
            except StartRefused as refused:
                if refused.code != "NO_PROCESSES" or loop.time() > give_up_at:
                    raise
            # The box has too many processes; it soon ends the command with the most of them.
            await asyncio.sleep(_START_RETRY_S)

    async def ping(self, timeout_s: float) -> None:
        """Wait for a sign of life; fails with TimeoutError or the link's error."""
        ident = self._outgoing.new_ident()
        answer = self._outgoing.expect(frames.PING, ident)
        self._outgoing.send(frames.PING, ident)
        async with asyncio.timeout(timeout_s):
            await answer

    async def wait_ended(self) -> ExecutorError:
        """Wait until the link has ended; return how."""
        await self._ended.wait()
        assert self.error is not None
        return self.error

    async def say_hello(self) -> None:
        """Send the hello and receive the box's commands, with the exits of those that ended."""
        message: dict[str, Any] = {
            "version": frames.PROTOCOL_VERSION,
            "box": self._hello.box_key,
            "secret": self._hello.secret,
            "epoch": self._hello.epoch,
            "acked": {exec_id: list(offsets) for exec_id, offsets in self._hello.acked.items()},
        }
        if self._hello.orphan_timeout_s is not None:
            message["orphan_timeout_s"] = self._hello.orphan_timeout_s
        self._outgoing.send_json(frames.HELLO, 0, message)
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                await self._caught_up.wait()
        except TimeoutError:
            self._end(LinkClosed("the box does not answer"))
        if self.error is not None:
            raise self.error

    async def read(self) -> None:
        reader = FrameReader(frames.REPLIES, frames.MAX_REPLY_BYTES)
        since_pause_bytes = 0
        try:
            while data := await self._stream.read(_READ_BYTES):
                for kind, ident, payload in reader.feed(data):
                    if self.error is not None:
                        return
                    self._handlers[kind](ident, payload)
                self._outgoing.check_flood()
                since_pause_bytes += len(data)
                if since_pause_bytes >= _READ_BEFORE_OTHERS_BYTES:
                    since_pause_bytes = 0
                    await asyncio.sleep(0)
        except FrameError as error:
            self._end(BoxPoisoned(f"box {self._hello.box_key} broke the protocol: {error}"))
        finally:
            self._end(LinkClosed("the box ended the channel"))
            await self._stream.close()

    async def write(self) -> None:
        try:
            await self._outgoing.run()
        except LinkClosed as error:
            self._end(error)
        finally:
            await self._stream.close()

    async def close(self) -> None:
        """End the link; commands continue in the box."""
        self._end(LinkClosed("closed by the executor"))
        await self._stream.close()

    def _end(self, error: ExecutorError) -> None:
        if self.error is not None:
            return
        self.error = error
        self._outgoing.end(error)
        for command in list(self._by_ident.values()):
            command.on_link_ended(error)
        self.files.on_link_ended(error)
        self.streams.on_link_ended(error)
        self._caught_up.set()
        self._ended.set()

    def _on_command(self, ident: int, payload: memoryview) -> None:
        state = read(frames.read_json(payload), CommandState)
        if ident in self._by_ident or state.exec_id in self.commands:
            raise FrameError("a command was named twice")
        command = ExecHandle(ident, state, self._outgoing, self._on_forgotten)
        starting = self._starting.pop(ident, None)
        if not self._is_ready:
            self._check_resumed(command)
            self._outgoing.last_ident = max(self._outgoing.last_ident, ident)
            adopt = self._adopt
            if state.state == "finished":
                self._unheard.add(ident)
        elif starting is not None and starting.request.exec_id == state.exec_id:
            adopt = starting.adopt
        else:
            raise FrameError("a command that nobody started")
        self._by_ident[ident] = self.commands[state.exec_id] = command
        command.sink = adopt(command)
        if command.sink is None:
            command.cancel(grace_s=0)
        if starting is not None:
            self._outgoing.resolve(frames.START, ident, command)

    def _check_resumed(self, command: ExecHandle) -> None:
        state = command.state
        have = self._hello.acked.get(state.exec_id, (0, 0))
        if state.acked[0] < have[0] or state.acked[1] < have[1]:
            raise FrameError("output would come twice")
        if len(self._by_ident) >= _MAX_COMMANDS or command.ident > _MAX_IDENT:
            raise FrameError("too many commands")

    def _on_ready(self, _ident: int, payload: memoryview) -> None:
        if self._is_ready:
            raise FrameError("a second welcome")
        if read_number(frames.read_json(payload), "commands") != len(self._by_ident):
            raise FrameError("the table of commands is incomplete")
        self._is_ready = True
        self._check_caught_up()

    def _on_denied(self, _ident: int, payload: memoryview) -> None:
        if self._is_ready:
            raise FrameError("refused after the welcome")
        self._end(LinkRefused(read_text(frames.read_json(payload), "reason")))

    def _on_start_failed(self, ident: int, payload: memoryview) -> None:
        message = frames.read_json(payload)
        error = StartRefused(read_text(message, "code"), read_text(message, "message"))
        if self._starting.pop(ident, None) is None:
            raise FrameError("a start that failed for nobody")
        self._outgoing.resolve(frames.START, ident, error)

    def _on_exited(self, ident: int, payload: memoryview) -> None:
        self._command(ident).on_exited(payload)
        self._unheard.discard(ident)
        self._check_caught_up()

    def _check_caught_up(self) -> None:
        if not self._unheard:
            self._caught_up.set()

    def _on_forgotten(self, command: ExecHandle) -> None:
        self._by_ident.pop(command.ident, None)
        self.commands.pop(command.exec_id, None)

    def _command(self, ident: int) -> ExecHandle:
        command = self._by_ident.get(ident)
        if command is None or not self._is_ready:
            raise FrameError("frame of an unknown command")
        return command


@asynccontextmanager
async def open_link(
    stream: ByteStream, hello: Hello, adopt: Adopt
) -> AsyncGenerator[SupervisorLink]:
    """Open a link over stream, which it owns and closes, for the time of the block.

    adopt is called for each command that the box already has, before its output continues. The
    exits of ended commands arrive before the block begins. Fails with LinkRefused, LinkClosed or
    BoxPoisoned; later, wait_ended returns how the link ended.
    """
    link = SupervisorLink(stream, hello, adopt)
    # If either fails, the link ends and the other is cancelled.
    running = asyncio.gather(link.read(), link.write())
    try:
        await link.say_hello()
        yield link
    finally:
        await link.close()
        await running
