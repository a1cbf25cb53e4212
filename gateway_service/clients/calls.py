"""Calls of other services: what their failures mean to whoever asked for them."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, cast

import grpc
import grpc.aio

from gateway_service.errors import AgentRefused, SchedulerRefused
from services.errors import DETAILS_KEY, HermesError, Reason, ServiceUnavailable, details_of

_log = logging.getLogger(__name__)

ChannelOf = Callable[[str], grpc.aio.Channel]
"""The channel to a service by its name; FailedPrecondition where it has no address."""

SCHEDULER_S = 10.0
"""How long the scheduler has for an answer: a person waits for it."""
SCHEDULER_AWAY = (
    "The scheduler does not answer. Jobs and the curator need it: `hermes up` runs it, or "
    "`hermes serve scheduler`. A chat of a profile by itself reaches that of its own home alone; "
    "`hermes jobs --profile NAME` finds the jobs of a profile wherever they run."
)

_PASSING = (Reason.SERVICE_UNAVAILABLE, Reason.DRAINING, Reason.DATABASE_UNAVAILABLE)
_T = TypeVar("_T")


async def of_agent(call: Awaitable[_T]) -> _T:
    """What the agent answers; ServiceUnavailable or AgentRefused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise explained(error) from error


async def of_scheduler(call: Awaitable[_T]) -> _T:
    """What the scheduler answers; ServiceUnavailable where it is away, else SchedulerRefused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        details = details_of(error)
        # Where the gateway runs without it, as in `hermes chat` alone, nobody knows its methods.
        if error.code() is grpc.StatusCode.UNIMPLEMENTED or not _has_said_why(error):
            _log.warning("the scheduler does not answer: %s", details.message)
            raise ServiceUnavailable(SCHEDULER_AWAY) from error
        if details.reason in _PASSING:
            raise ServiceUnavailable(details.message) from error
        raise SchedulerRefused(
            details.message, reason=details.reason, metadata=details.metadata
        ) from error


def _has_said_why(error: grpc.aio.AioRpcError) -> bool:
    """Whether a service has refused a call; else it has not come as far."""
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    return any(key == DETAILS_KEY for key, _ in trailing)


def explained(error: grpc.aio.AioRpcError) -> HermesError:
    """A failed call of the agent as our own error."""
    details = details_of(error)
    # A model that cannot be reached is UNAVAILABLE too, but that is an answer.
    if details.reason in _PASSING:
        return ServiceUnavailable(details.message, retry_after_s=details.retry_after_s)
    return AgentRefused(details.message, reason=details.reason, metadata=details.metadata)
