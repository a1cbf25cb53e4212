"""A hook's process: started with its first event, and anew after it died or took too long."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from services.errors import HermesError
from services.lifecycle import Workers, unbroken
from services.validation import json_object

MAX_ANSWER_BYTES = 64 * 1024
MAX_ERROR_CHARS = 2000
MAX_LINE_BYTES = 8192
_WORKER = Path(__file__).with_name("worker.py")


class HookFailed(HermesError):
    """A hook gave no result; the message says why."""


class HookProcess:
    """Calls a hook's handler, one event after another."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        timeout_s: float,
        on_output: Callable[[str], None],
    ) -> None:
        """`on_output` gets each line that the handler prints."""
        self._folder, self._environ = folder, environ
        self._timeout_s = timeout_s
        self._on_output = on_output
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._readers = Workers()

    async def call(self, event: str, context: Mapping[str, object]) -> object:
        """Return the handler's result; HookFailed if there is none in time."""
        line = json.dumps({"event": event, "context": context}).encode() + b"\n"
        async with self._turn:
            answer = await self._ask(line)
        if answer is None:
            raise HookFailed("its process ended")
        if "error" in answer:
            raise HookFailed(f"its handler failed:\n{str(answer['error'])[-MAX_ERROR_CHARS:]}")
        return answer.get("result")

    async def close(self) -> None:
        """End the process, if there is one, with those that it started."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        async with self._readers:
            await self._readers.drain(1)
        self._readers = Workers()

    async def _ask(self, line: bytes) -> dict[str, object] | None:
        answer: dict[str, object] | None = None
        if self._process is not None and self._process.returncode is not None:
            await self.close()  # it died since the last event
        try:
            async with asyncio.timeout(self._timeout_s):
                process = self._process or await self._start()
                assert process.stdin is not None, "it is a pipe"
                assert process.stdout is not None, "it is a pipe"
                process.stdin.write(line)
                await process.stdin.drain()
                answer = json_object(await process.stdout.readline())
        except TimeoutError:
            raise HookFailed(f"it took longer than {self._timeout_s:g} s") from None
        except ValueError:
            raise HookFailed(f"its result is longer than {MAX_ANSWER_BYTES:,} bytes") from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise HookFailed(f"its process cannot be used: {why}") from None
        finally:
            if answer is None:
                await unbroken(self.close())
        return answer

    async def _start(self) -> Process:
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", str(_WORKER), str(self._folder)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self._folder,
            env=self._environ,
            limit=MAX_ANSWER_BYTES,
            start_new_session=True,
        )
        assert process.stderr is not None, "it is a pipe"
        self._readers.start("output of a hook", self._read(process.stderr))
        return process

    async def _read(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await output.read(MAX_LINE_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._on_output(line.decode(errors="replace"))
        if rest:
            self._on_output(rest.decode(errors="replace"))
