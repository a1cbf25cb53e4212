"""What the agent's servicers share."""

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec.structs import asdict

from agent_service.usage import Usage
from hermes.common.v1 import usage_pb2
from services.home import DEFAULT_PROFILE

Context = grpc.aio.ServicerContext[Any, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def profile_of(name: str) -> str:
    """The profile that a request means."""
    return name or DEFAULT_PROFILE


def usage(used: Usage) -> usage_pb2.Usage:
    """Usage on the wire."""
    return usage_pb2.Usage(**asdict(used))


def timestamp(moment: datetime) -> Timestamp:
    """A time on the wire."""
    # As `FromDatetime` does it, in a third of the time: every event has one.
    seconds, rest = divmod(moment - _EPOCH, _SECOND)
    return Timestamp(seconds=seconds, nanos=rest.microseconds * 1000)
