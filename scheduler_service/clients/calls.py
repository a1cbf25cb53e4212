"""Calls of other services, and what their failures mean."""

from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import TypeVar

import grpc
import grpc.aio

from hermes.agent.v1 import turn_event_pb2, turn_pb2, turn_pb2_grpc
from scheduler_service.errors import CallRefused
from services.errors import HermesError, ServiceUnavailable, details_of
from services.rpc.streams import resume

CALL_S = 10.0

# Not UNIMPLEMENTED: a command may run the scheduler without an agent, so a retry can help.
_FINAL = frozenset(
    {
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)

_T = TypeVar("_T")


async def await_answer(call: Awaitable[_T]) -> _T:
    """Await a call; raises Unavailable and CallRefused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise explain(error) from error


async def answer_unless(code: grpc.StatusCode, call: Awaitable[_T]) -> _T | None:
    """Await a call; None if it fails with the code."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        if error.code() is not code:
            raise explain(error) from error
        return None


async def watch(
    turns: turn_pb2_grpc.TurnServiceStub, profile: str, turn_id: str
) -> Sequence[turn_event_pb2.TurnEvent]:
    """Return a turn's durable events once it has ended, reconnecting as needed."""
    events = list[turn_event_pb2.TurnEvent]()

    def open_call() -> grpc.aio.UnaryStreamCall[
        turn_pb2.WatchTurnRequest, turn_pb2.WatchTurnResponse
    ]:
        last = events[-1].sequence if events else 0
        request = turn_pb2.WatchTurnRequest(
            turn_id=turn_id, profile=profile, after_sequence=last, ended_only=True
        )
        return turns.WatchTurn(request)

    try:
        async with aclosing(resume(open_call, _ends_turn, passes=may_pass)) as responses:
            async for response in responses:
                events += response.events
    except grpc.aio.AioRpcError as error:
        raise explain(error) from error
    return events


def may_pass(error: grpc.aio.AioRpcError) -> bool:
    """Return whether a retry may help."""
    return error.code() not in _FINAL


def _ends_turn(response: turn_pb2.WatchTurnResponse) -> bool:
    return response.events[-1].HasField("turn_finished")


def explain(error: grpc.aio.AioRpcError) -> HermesError:
    """Return the error of a failed call: ServiceUnavailable or CallRefused."""
    details = details_of(error)
    if may_pass(error):
        return ServiceUnavailable(details.message, retry_after_s=details.retry_after_s)
    return CallRefused(details.message, reason=details.reason, metadata=details.metadata)
