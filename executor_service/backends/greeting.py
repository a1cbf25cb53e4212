"""The first bytes through a bridge: only after them does a stream lead to a supervisor."""

import asyncio

from executor_service.backends.base import Box, ByteStream
from executor_service.errors import BoxLost, LinkClosed, LinkRefused
from executor_service.supervisor import frames
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


async def introduce(stream: ByteStream, box: Box, deadline_s: float) -> None:
    """Tell the supervisor of a new box whose it is; LinkRefused when it knows better."""
    identity = {"box": box.key, "secret": box.secret}
    nothing: dict[str, object] = {}
    hello = {**identity, "version": frames.PROTOCOL_VERSION, "epoch": 0, "acked": nothing}
    try:
        async with asyncio.timeout(deadline_s):
            await stream.write(frames.pack_json(frames.HELLO, 0, hello))
            kind, answer = await _first_frame(stream)
            if kind != frames.READY:
                raise LinkRefused(str(frames.read_json(answer).get("reason")))
    except TimeoutError as error:
        raise LinkClosed("the supervisor does not answer") from error
    except frames.FrameError as error:
        raise LinkClosed(f"what answers is no supervisor: {error}") from error


async def _first_frame(stream: ByteStream) -> tuple[int, memoryview]:
    reader = frames.FrameReader(frames.REPLIES, _MAX_HEARD_BYTES)
    while data := await stream.read(_MAX_HEARD_BYTES):
        for kind, _, payload in reader.feed(data):
            return kind, payload
    raise LinkClosed("the supervisor hung up")
