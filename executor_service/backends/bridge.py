"""Bridges: commands in a box whose streams lead to its supervisor."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from executor_service.backends.base import BoxSpec
from executor_service.errors import BoxLost, LinkClosed
from executor_service.link.byte_streams import ByteStream
from executor_service.supervisor.bridge import GREETING, NO_SUPERVISOR

PYTHON = ("python3", "-I", "-S")
_SOCKET = "@hermes-supervisor"
"""An abstract socket, which belongs to the box's network namespace; no command can replace it."""
BRIDGE = ("--bridge", _SOCKET)
"""Arguments that make the supervisor's program a bridge."""
_MAX_HEARD_BYTES = 8192
_MAX_SHOWN_CHARACTERS = 1024
_Stream = TypeVar("_Stream", bound=ByteStream)


def supervisor_arguments(spec: BoxSpec) -> tuple[str, ...]:
    """Return the arguments with which the supervisor's program serves a box."""
    return "--socket", _SOCKET, "--box", spec.box_key, "--secret-sha256", spec.secret_sha256


async def wait_greeting(
    stream: _Stream, deadline_s: float, complaint: Callable[[], Awaitable[str]] | None = None
) -> _Stream:
    """Wait until a stream's bridge has reached the supervisor; return the stream.

    Fails with BoxLost if there is no supervisor, and with LinkClosed if there is no bridge, and
    then closes the stream. `complaint` returns more about the failure.
    """
    try:
        await _expect_greeting(stream, deadline_s)
    except BaseException as error:
        try:
            said = await complaint() if complaint and isinstance(error, LinkClosed) else ""
        finally:
            await stream.close()
        if said:
            raise LinkClosed(f"{error}; {said}") from error
        raise
    return stream


async def _expect_greeting(stream: ByteStream, deadline_s: float) -> None:
    """Wait for the bridge; a login shell, for example, may print something first."""
    heard = b""
    try:
        async with asyncio.timeout(deadline_s):
            while not heard.endswith(GREETING) and len(heard) < _MAX_HEARD_BYTES:
                data = await stream.read(_MAX_HEARD_BYTES - len(heard))
                if not data:
                    break
                heard += data
    except TimeoutError as error:
        raise LinkClosed("the bridge into the box does not answer") from error
    if heard.endswith(NO_SUPERVISOR):
        raise BoxLost("no supervisor listens in the box")
    if not heard.endswith(GREETING):
        complaint = heard.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:] or "it ended"
        raise LinkClosed(f"no bridge into the box: {complaint}")


async def read_all(stream: ByteStream) -> bytes:
    """Read a program's output until it ends."""
    said = bytearray()
    while data := await stream.read(_MAX_HEARD_BYTES):
        said += data
    return bytes(said)
