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

SLOW_S = 0.2


def _calls(number: int, command: str) -> dict[str, Any]:
    call = {"name": "terminal", "arguments": {"command": command}}
    return {"tool_calls": [call] * number}


_TEXT = {"text": "That is done, and all is well."}

SCRIPT: Mapping[str, Any] = {
    "rules": [
        {"user": COMMAND, "steps": [_calls(1, "true"), _TEXT]},
        {"user": SLEEPS, "steps": [_calls(4, "sleep 0.5"), _TEXT]},
        {"user": SLOW, "steps": [{**_TEXT, "latency_s": SLOW_S}]},
        {"steps": [_TEXT]},
    ]
}
"""Answers at once, but to `SLOW`."""


@asynccontextmanager
async def model_process(script: Mapping[str, Any] = SCRIPT) -> AsyncGenerator[str]:
    """Run a scripted model in another process; gives its base URL."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(script, file)
        file.flush()
        command = (sys.executable, "-m", "services.demo", "--script", file.name)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert process.stdout is not None
            yield (await process.stdout.readline()).decode().strip()
        finally:
            process.terminate()
            await process.wait()
