"""Where sessions' browsers run: in sandboxes of their own, or elsewhere with a driver here."""

import asyncio
import json
import os
import secrets
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct

from agent_service.clients.commands import (
    Attached,
    OneSandbox,
    Output,
    SessionCommands,
    attached,
    open_request,
    send_input,
)
from agent_service.clients.executors import Executors
from agent_service.clients.files import SessionFiles
from agent_service.clients.leases import ACQUIRE_WAIT_S, HeldSandbox, is_gone
from agent_service.clients.patience import Patience
from agent_service.records.sandbox import Command, CommandUnknown, SandboxUnavailable, Stream
from agent_service.tools.base import Caller
from agent_service.tools.browser.browsers import BrowserGone, Connection, program_argv
from hermes.executor.v1 import exec_pb2, sandbox_pb2
from services.errors import message_of
from services.ids import new_id
from services.validation import json_object

_LIFE_S = 24 * 3600.0
_IDLE_S = 300
"""How long a sandbox stays after its browser's program has ended."""
_LONGEST_SESSION_ID = 90
_MAX_LINE_BYTES = 64_000_000
_ERRORS_BYTES = 2000
_TOO_LONG = f"it answered with more than {_MAX_LINE_BYTES:,} bytes"
_ENDED = "nothing was asked of it for a while, or it crashed"


class BrowserSandboxes(Struct, frozen=True):
    """Starts browsers in sandboxes of a template."""

    executors: Executors
    template: str
    python: str

    async def connect(self, caller: Caller, place: Mapping[str, str]) -> Connection:
        """Return the session's browser, started if it does not run."""
        # Nobody can name a session like this and use the browser's sandbox as its own.
        part = f"{caller.session_id[-_LONGEST_SESSION_ID:]}.{secrets.token_hex(16)}"
        session_id = place.get("session_id") or part
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"),
            profile=caller.profile,
            session_id=session_id,
            template=self.template,
            idle_ttl=Duration(seconds=_IDLE_S),
            wait=Duration(seconds=ACQUIRE_WAIT_S),
        )
        known = place.get("endpoint", ""), place.get("sandbox_id", "")
        try:
            answer = await self.executors.acquire(request, *known)
        except grpc.aio.AioRpcError as error:
            raise SandboxUnavailable(f"No browser can be had: {message_of(error)}") from error
        held = HeldSandbox.from_answer(self.executors, caller.profile, answer, "")
        commands, key = SessionCommands(OneSandbox(held)), place.get("key", "")
        running = {each.key for each in await commands.list() if each.exit is None}
        if key in running:
            page = await commands.read(key, Stream.STDOUT, -1, 1)
            return BrowserSandbox(held, session_id, key, is_new=False, read=page.total_bytes)
        key = new_id("exc")
        argv = await asyncio.to_thread(program_argv, self.python)
        await commands.start(Command(key, argv, timeout_s=_LIFE_S, background=True))
        return BrowserSandbox(held, session_id, key, is_new=True)


class BrowserSandbox:
    """A browser in a sandbox; its lines go over the input and output of its program."""

    def __init__(
        self, held: HeldSandbox, session_id: str, key: str, *, is_new: bool, read: int = 0
    ) -> None:
        """`read` is how much of its output an earlier owner has had."""
        self.is_new = is_new
        self._held = held
        self._session_id = session_id
        self._key = key
        self._files = SessionFiles(OneSandbox(held))
        self._sent: int | None = None
        """Position after the last line in the program's input; None until it is known."""
        self._line_at: int | None = None
        self._stdout, self._stderr = read, 0
        self._rest = self._errors = b""

    @property
    def place(self) -> Mapping[str, str]:
        binding = self._held.binding
        return {
            "session_id": self._session_id,
            "sandbox_id": binding.sandbox_id,
            "endpoint": binding.endpoint,
            "key": self._key,
        }

    async def exchange(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        line = json.dumps(request).encode() + b"\n"
        patience = Patience(self._held.patience_s)
        self._line_at = self._sent
        while True:
            first = open_request(self._held, self._key, self._stdout, self._stderr)
            try:
                async with attached(self._held, first) as opened:
                    return await self._follow(opened, request["id"], line)
            except grpc.aio.AioRpcError as error:
                if is_gone(error):
                    raise BrowserGone("its sandbox has ended") from error
                if not await patience.wait(error):
                    raise SandboxUnavailable(message_of(error)) from error

    async def _follow(self, opened: Attached, number: int, line: bytes) -> Mapping[str, Any]:
        """Send what the program does not have of a line, and return the answer."""
        call, requests = opened
        is_fed = False
        async for message in call:
            match message.WhichOneof("kind"):
                case "stdin_ack_offset" if not is_fed:
                    is_fed = True
                    first = message.stdin_ack_offset
                    self._line_at = first if self._line_at is None else self._line_at
                    self._sent = self._line_at + len(line)
                    send_input(requests, line[max(first - self._line_at, 0) :], first)
                case "output":
                    if (found := self._found(message.output, number)) is not None:
                        return found
                    if len(self._rest) > _MAX_LINE_BYTES:
                        await self.close()
                        raise BrowserGone(_TOO_LONG)
                case "exited":
                    *_, said = self._errors.decode(errors="replace").strip().rpartition("\n")
                    raise BrowserGone(said or _ENDED)
                case _:
                    pass
        raise BrowserGone("its output ended")

    def _found(self, output: Output, number: int) -> Mapping[str, Any] | None:
        """Return the answer of a number if this output completes it."""
        end = output.offset + len(output.data)
        if output.stream != exec_pb2.OUTPUT_STREAM_STDOUT:
            self._stderr = end
            self._errors = (self._errors + output.data)[-_ERRORS_BYTES:]
            return None
        self._stdout = end
        *lines, self._rest = (self._rest + output.data).split(b"\n")
        answers = map(_answer, lines)
        return next((each for each in answers if each.get("id") == number), None)

    async def put(self, name: str, data: bytes) -> str:
        path = f"uploads/{name}"
        await self._files.write(path, data)
        return path

    async def get(self, path: str, max_bytes: int) -> bytes:
        return await self._files.read(path, max_bytes)

    async def close(self) -> None:
        with suppress(CommandUnknown, SandboxUnavailable):
            await SessionCommands(OneSandbox(self._held)).kill(self._key)


class BrowserProcesses:
    """Drives browsers that run elsewhere; nothing but the driver runs here."""

    async def connect(self, _caller: Caller, _place: Mapping[str, str]) -> Connection:
        """Start a driver; it ends with this process, or after a while without use."""
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-browser-")
        argv = await asyncio.to_thread(program_argv)
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env={"PATH": os.defpath, "HOME": folder, "TMPDIR": folder},
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=_MAX_LINE_BYTES,
        )
        return BrowserProcess(process, Path(folder))


class BrowserProcess:
    """A browser elsewhere."""

    is_new = True
    place: Mapping[str, str] = {}

    def __init__(self, process: Process, folder: Path) -> None:
        self._process = process
        self._folder = folder

    async def exchange(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        sent, answers = self._process.stdin, self._process.stdout
        assert sent is not None, "it was started with pipes"
        assert answers is not None, "it was started with pipes"
        try:
            sent.write(json.dumps(request).encode() + b"\n")
            await sent.drain()
            while line := await answers.readline():
                found = _answer(line)
                if found.get("id") == request["id"]:
                    return found
        except OSError as error:
            raise BrowserGone(_ENDED) from error
        except ValueError as error:
            await self.close()
            raise BrowserGone(_TOO_LONG) from error
        await self.close()
        raise BrowserGone(_ENDED)

    async def put(self, name: str, data: bytes) -> str:
        path = self._folder / "uploads" / name
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_bytes, data)
        return f"uploads/{name}"

    async def get(self, path: str, max_bytes: int) -> bytes:
        return await asyncio.to_thread((self._folder / path).read_bytes)

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        while self._process.stdout and await self._process.stdout.read(_MAX_LINE_BYTES):
            pass  # else the pipe stays open
        await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _answer(line: bytes) -> Mapping[str, Any]:
    """Return a line's answer; empty if it is something else."""
    return json_object(line.decode(errors="replace")) or {}
