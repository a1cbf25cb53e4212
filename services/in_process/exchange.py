"""A call as both of its ends share it: two pipes, a deadline, and how it ended."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import grpc.aio
from msgspec import Struct

from services.calls import Metadata
from services.in_process.pipe import Pipe

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""What gRPC takes by default: a longer message would fail as soon as the services are apart."""

EOF: object = cast("Any", grpc.aio).EOF
"""What reading from a call returns after the last message."""

Codec = Callable[[Any], Any]
"""Encodes or decodes messages."""


def codec(given: Codec | None) -> Codec:
    """Return a codec; messages of calls without one are bytes."""
    return given or bytes


class Status(Struct, frozen=True):
    """How a call ended."""

    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailing: Metadata = ()

    def as_error(self) -> grpc.aio.AioRpcError:
        """Return it as a client catches it."""
        trailing = grpc.aio.Metadata(*self.trailing)
        return grpc.aio.AioRpcError(self.code, grpc.aio.Metadata(), trailing, self.details, None)


OK = Status()
CANCELLED = Status(grpc.StatusCode.CANCELLED, "the client has cancelled the call")
LATE = Status(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline has passed")
NOT_SERVING = Status(grpc.StatusCode.UNAVAILABLE, "the service does not take calls")
NO_METHOD = Status(grpc.StatusCode.UNIMPLEMENTED, "this method is not served")
BROKEN = Status(grpc.StatusCode.UNKNOWN, "the call ended without a status")
EMPTY = Status(grpc.StatusCode.INTERNAL, "the call ended without an answer")
TOO_LONG = Status(
    grpc.StatusCode.RESOURCE_EXHAUSTED, f"a message is longer than {MAX_MESSAGE_BYTES} bytes"
)


class Exchange:
    """One call from its start to its status; the first status stays."""

    def __init__(self, method: str, metadata: Metadata, timeout_s: float | None) -> None:
        self.method = method
        self.metadata = metadata
        self.request = b""
        """What is asked for, where that is one message."""
        self.requests = Pipe()
        self.responses = Pipe()
        self.status: Status | None = None
        self.serving: asyncio.Task[None] | None = None
        """What is cancelled when the call is cut."""
        self.on_end: list[Callable[[], object]] = []
        self._ended = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(max(0.0, timeout_s), self.cut, LATE)

    def end(self, status: Status) -> None:
        """End the call, after what has been answered."""
        if self.status is not None:
            return
        self.status = status
        if self._deadline is not None:
            self._deadline.cancel()
        self.requests.drop()
        self.responses.end()
        self._ended.set()
        # Let go of at once: what is called refers to the call, which would outlive its use.
        calls, self.on_end = self.on_end, []
        for call in calls:
            call()

    def cut(self, status: Status) -> bool:
        """End the call and its handler at once; False when it has ended before."""
        if self.status is not None:
            return False
        self.responses.drop()
        self.end(status)
        if self.serving is not None:
            self.serving.cancel()
        return True

    async def ended(self) -> Status:
        """Wait for the status."""
        await self._ended.wait()
        assert self.status is not None
        return self.status

    def ask(self, message: bytes) -> None:
        """Set what is asked for."""
        if len(message) > MAX_MESSAGE_BYTES:
            self.cut(TOO_LONG)
        self.request = message

    async def send(self, pipe: Pipe, message: bytes) -> bool:
        """Put a message into one of the pipes; False when the call has ended."""
        if len(message) > MAX_MESSAGE_BYTES:
            self.cut(TOO_LONG)
        return await pipe.put(message)

    @property
    def remaining_s(self) -> float | None:
        """How long until the deadline; None without one."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline.when() - asyncio.get_running_loop().time())
