"""The scripted model in a process of its own, and what it says to whom."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

PLAIN = "How are you?"
COMMAND = "Run one command."
SLEEPS = "Sleep four times at once."
SLOW = "Think about it."
SLOW_COMMAND = "Think about it, and run one command."
SUMMARY_REQUEST = "^The conversation:"
"""How Hermes begins when it has a conversation compressed."""

SLOW_S = 0.2


def _calls(number: int, command: str) -> dict[str, Any]:
    call = {"name": "terminal", "arguments": {"command": command}}
    return {"tool_calls": [call] * number}


def _slowly(step: Mapping[str, Any]) -> dict[str, Any]:
    return {**step, "latency_s": SLOW_S}


_TEXT = {"text": "That is done, and all is well."}

SCRIPT: Mapping[str, Any] = {
    "rules": [
        {"user": SUMMARY_REQUEST, "steps": [_slowly({"text": "They talked about disks. " * 40})]},
        {"user": COMMAND, "steps": [_calls(1, "true"), _TEXT]},
        {"user": SLEEPS, "steps": [_calls(4, "sleep 0.5"), _TEXT]},
        {"user": SLOW_COMMAND, "steps": [_slowly(_calls(1, "true")), _slowly(_TEXT)]},
        {"user": SLOW, "steps": [_slowly(_TEXT)]},
        {"steps": [_TEXT]},
    ]
}
"""Answers at once where nobody asks it to think."""


@asynccontextmanager
async def model_process(script: Mapping[str, Any] = SCRIPT) -> AsyncGenerator[str]:
    """Run a scripted model in another process; gives its base URL."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(script, file)
        file.flush()
        command = (sys.executable, "-m", "tests.fakes.model", "--script", file.name)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            yield (await process.stdout.readline()).decode().strip()
        finally:
            process.terminate()
            await process.wait()
