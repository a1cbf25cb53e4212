"""The first bytes through a bridge: only after them does a stream lead to a supervisor."""

import asyncio

from executor_service.backends.base import ByteStream
from executor_service.errors import BoxLost, LinkClosed
from executor_service.supervisor.bridge import GREETING, NO_SUPERVISOR

_MAX_HEARD_BYTES = 8192
_MAX_SHOWN_CHARACTERS = 1024


async def expect_greeting(stream: ByteStream, deadline_s: float) -> None:
    """Wait for the bridge; what ran it may speak first, a login shell for example.

    BoxLost when the bridge finds no supervisor, LinkClosed with what came when there is no bridge.
    """
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
        raise BoxLost("nobody listens in the box any more")
    if not heard.endswith(GREETING):
        complaint = heard.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:] or "it ended"
        raise LinkClosed(f"no bridge into the box: {complaint}")
