"""The `execute_code` tool: a Python program in the sandbox that can call tools."""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

from pydantic import Field

from agent_service.records.sandbox import (
    Command,
    CommandStatus,
    CommandUnknown,
    SandboxUnavailable,
    Stream,
)
from agent_service.tools.base import (
    Effect,
    InnerCalls,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.taint import fenced
from agent_service.tools.inner import inner_key
from agent_service.tools.output import CommandOutput
from agent_service.tools.shell.program import ERRORS_CHARS, PROGRAM
from agent_service.tools.shell.terminal import describe_exit
from services.lifecycle import ungrouped

NAME = "execute_code"
TIME_LIMIT_S = 300
MAX_CALLS = 50
MAX_LINE_BYTES = 1024 * 1024
_ASK_AGAIN_S = 0.5
_STRANGERS = frozenset({"web_search", "web_extract"})
_FUNCTIONS = "program"


class ExecuteCodeArguments(ToolArguments):
    """Runs a Python program in this session's sandbox that can call tools itself.

    Use it for several calls with logic between them: loops, filters, retries, or long results of
    which you need little. `from hermes_tools import web_search, web_extract, read_file, write_file,
    search_files, patch, terminal`. Each function takes the parameters of its tool and returns the
    tool's text, with `exit_code` for terminal. A call that fails raises `hermes_tools.ToolError`.
    At most 300 seconds and 50 calls. You see only what the program prints, at most 50,000 bytes of
    it.
    """

    code: str = Field(min_length=1, max_length=100_000, description="The program, in Python 3.")


class ExecuteCode(UsualTool[ExecuteCodeArguments]):
    """Runs programs."""

    name = NAME
    toolset = "code_execution"
    arguments = ExecuteCodeArguments
    usual_effect = Effect.KEYED
    """The program is found again by its key, and its calls by their numbers."""
    usual_writes = frozenset({NAME})
    """One program runs at a time, since their calls are stored in the same place."""

    async def run(self, arguments: ExecuteCodeArguments, context: ToolContext) -> ToolResult:
        if context.inner is None:
            raise ToolFailed("Programs cannot be run here.")
        return await _Program(arguments.code, context, context.inner).run()


class _Program:
    def __init__(self, code: str, context: ToolContext, inner: InnerCalls) -> None:
        self._code = code
        self._context = context
        self._inner = inner
        self._stdout = CommandOutput(context.progress, time.monotonic)
        self._line = bytearray()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._said = 0
        self._calls = 0
        self._errors = ""
        self._why_killed = ""
        self._running = ""
        self._has_strangers = False
        self._notices: dict[str, None] = {}

    async def run(self) -> ToolResult:
        command = Command(
            key=self._context.key,
            argv=("python3", "-c", PROGRAM),
            timeout_s=TIME_LIMIT_S,
            stdin=True,
        )
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer())
                status = await self._context.commands.run(command, self._take)
                # Its last output may still be unread.
                self._read_errors()
                answering.cancel()
        if self._running:
            await self._kill(self._running)
        return self._result(status)

    def _take(self, stream: Stream, data: bytes) -> None:
        if stream is Stream.STDOUT:
            self._stdout.add(data)
            return
        self._line += data
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest[:MAX_LINE_BYTES])
        for line in lines:
            self._lines.put_nowait(bytes(line))
        if len(rest) > MAX_LINE_BYTES:
            self._lines.put_nowait(b'{"call": -1}')

    async def _answer(self) -> None:
        while not self._why_killed:
            asked = self._understood(await self._lines.get())
            match asked:
                case {"ready": True}:
                    await self._say({"code": self._code, "functions": await self._functions()})
                case {"call": int(number), "name": str(name), "arguments": str(arguments)}:
                    await self._call(number, name, arguments)
                case {"call": _}:
                    await self._end("its calls could no longer be understood")
                case _:
                    pass

    def _understood(self, line: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        try:
            match json.loads(line):
                case {**found}:
                    fields = {str(name): value for name, value in found.items()}
                case other:
                    fields = {"errors": f"{other}\n"}
        except (ValueError, RecursionError):
            fields = {"errors": f"{line.decode(errors='replace')}\n"}
        errors = fields.get("errors")
        if isinstance(errors, str):
            self._errors = (self._errors + errors)[-ERRORS_CHARS:]
        return fields

    def _read_errors(self) -> None:
        while not self._lines.empty():
            self._understood(self._lines.get_nowait())

    async def _functions(self) -> Any:
        key, state = self._context.key, self._context.state
        found: dict[str, Any] = await state.get(_FUNCTIONS) or {}
        if found.get("key") != key:
            found = {"key": key, "functions": dict(self._inner.functions())}
            await state.put(_FUNCTIONS, found)
        return found["functions"]

    async def _call(self, number: int, name: str, arguments: str) -> None:
        self._calls += 1
        if number != self._calls:
            await self._end("its calls could no longer be told apart")
            return
        if number > MAX_CALLS:
            result = ToolResult(f"A program may make {MAX_CALLS} calls at most.", is_error=True)
        else:
            self._context.progress(f"[{number}: {name}]\n")
            self._running = inner_key(self._context.key, number)
            result = await self._inner.call(number, name, arguments)
            self._running = ""
        self._has_strangers |= name in _STRANGERS
        self._notices |= dict.fromkeys(result.notices)
        fields = {"text": result.text, "is_error": result.is_error, "exit_code": result.exit_code}
        await self._say(fields)

    async def _say(self, message: dict[str, Any]) -> None:
        """Send the program a line, leaving out what it received before."""
        data, at = json.dumps(message).encode() + b"\n", self._said
        self._said += len(data)
        while True:
            try:
                await self._context.commands.write(self._context.key, data, eof=False, at=at)
            except CommandUnknown:
                return
            except SandboxUnavailable:
                # The caller that follows the program limits how long to wait for an executor.
                await asyncio.sleep(_ASK_AGAIN_S)
            else:
                return

    async def _end(self, why: str) -> None:
        self._why_killed = why
        await self._kill(self._context.key)

    async def _kill(self, key: str) -> None:
        with suppress(CommandUnknown, SandboxUnavailable):
            await self._context.commands.kill(key)

    def _result(self, status: CommandStatus) -> ToolResult:
        ended = status.exit
        assert ended is not None, "a program that was followed to its end has ended"
        errors = self._errors if ended.code != 0 else ""
        said = (self._stdout.text(ended.stdout_bytes).rstrip("\n"), errors.rstrip("\n"))
        text = "\n".join(filter(None, said))
        if text and self._has_strangers:
            text = fenced(text, "a program that has read the web")
        lines = [text] if text else []
        note = f"It was killed because {self._why_killed}." if self._why_killed else ""
        if note := note or describe_exit(ended):
            lines.append(f"[{note}]")
        return ToolResult(
            "\n".join(lines) or "[no output]",
            is_error=ended.code != 0,
            exit_code=ended.code,
            notices=tuple(self._notices),
        )
