"""Runs scripts that parse untrusted data in separate processes, which may hang or crash."""

import asyncio
import math
import sys
from pathlib import Path

_MEMORY_KIB = 2 * 1024 * 1024
# Not every system supports every limit.
_LIMITED = (
    f"ulimit -c 0; ulimit -v {_MEMORY_KIB} 2>/dev/null || :; "
    'ulimit -t "$1" 2>/dev/null || :; shift; exec "$@"'
)


class ScriptFailed(Exception):
    """The script gave no result; the message says why."""


async def answer_of(script: Path, said: bytes, limit_s: float, *arguments: str) -> bytes:
    """A script's output for this input, with 2 GB of memory; ScriptFailed if it fails."""
    # Isolated mode: the script inherits no variables and no import path.
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _LIMITED, "sh", str(math.ceil(limit_s))),
        *(sys.executable, "-I", str(script), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(said)
    except TimeoutError:
        raise ScriptFailed(f"reading it took longer than {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ScriptFailed("it is too large or too damaged to be read")
    return answer
