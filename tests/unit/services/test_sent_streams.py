"""What a call that sends a stream says of how it ended, whichever status comes first."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import grpc
import grpc.aio
import pytest

from services.errors import WRITTEN_TOO_LATE
from services.rpc.streams import SentStream

REFUSED = (grpc.StatusCode.RESOURCE_EXHAUSTED, "no room", (("why", b"full"),))
OWN = (grpc.StatusCode.INTERNAL, WRITTEN_TOO_LATE, ())


class RacedCall:
    """A call of gRPC with statuses: callbacks hear of the first, and the last one stays."""

    def __init__(self) -> None:
        self._done = asyncio.get_running_loop().create_future()
        self._status: Any = None
        self._callbacks: list[Callable[[Any], None]] = []

    def end(self, status: Any) -> None:
        self._status, callbacks, self._callbacks = status, self._callbacks, []
        for callback in callbacks:
            callback(self)
        if not self._done.done():
            self._done.set_result(None)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._done.__await__()
        code, details, trailing = self._status
        raise grpc.aio.AioRpcError(
            code, grpc.aio.Metadata(), grpc.aio.Metadata.from_tuple(trailing), details, None
        )

    async def code(self) -> grpc.StatusCode:
        return self._status[0]

    async def details(self) -> str:
        return self._status[1]

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata.from_tuple(self._status[2])

    def cancel(self) -> bool:
        return True


async def refusal(*statuses: Any, later: Any = None) -> grpc.aio.AioRpcError:
    """How a call ends that has these statuses, and another one once somebody waits for it."""
    raced = RacedCall()
    call = SentStream(raced)
    for status in statuses:
        raced.end(status)
    if later is not None:
        asyncio.get_running_loop().call_later(0.03, raced.end, later)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("statuses", [(REFUSED,), (REFUSED, OWN), (OWN, REFUSED)])
async def test_what_the_server_has_said_counts(statuses: Any) -> None:
    error = await refusal(*statuses)
    assert (error.code(), error.details()) == REFUSED[:2]
    assert tuple(error.trailing_metadata()) == REFUSED[2]


async def test_what_the_server_says_later_is_waited_for() -> None:
    assert (await refusal(OWN, later=REFUSED)).details() == "no room"


async def test_a_server_that_says_nothing_is_not_waited_for_long() -> None:
    async with asyncio.timeout(10):
        assert (await refusal(OWN)).details() == WRITTEN_TOO_LATE


async def test_what_was_still_to_be_read_of_a_call_that_went_well_is_said_to_be_lost() -> None:
    assert (await refusal((grpc.StatusCode.OK, "", ()), OWN)).details() == WRITTEN_TOO_LATE
