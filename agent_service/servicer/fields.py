"""Conversions that the agent's servicers share."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec.structs import asdict

from agent_service.records.usage import Usage
from hermes.common.v1 import usage_pb2
from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE
from services.rpc.messages import enum_word

_E = TypeVar("_E", bound=Enum)

Context = grpc.aio.ServicerContext[Any, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def chosen(kind: type[_E], of: Any, number: int, field: str, unset: _E | None = None) -> _E:
    """Return the enum member with the same name; InvalidArgument lists the members."""
    name = enum_word(of.DESCRIPTOR, number).upper()
    if not name and unset is not None:
        return unset
    if name not in kind.__members__:
        fields = {field: ", ".join(kind.__members__)}
        raise InvalidArgument(f"{field} is none that there is", fields=fields)
    return kind[name]


def profile_of(name: str) -> str:
    """Return the profile that a request means."""
    return name or DEFAULT_PROFILE


def usage(used: Usage) -> usage_pb2.Usage:
    """Return usage on the wire."""
    return usage_pb2.Usage(**asdict(used))


def timestamp(moment: datetime) -> Timestamp:
    """Return a time on the wire."""
    # Like `FromDatetime`, in a third of the time: every event has one.
    seconds, rest = divmod(moment - _EPOCH, _SECOND)
    return Timestamp(seconds=seconds, nanos=rest.microseconds * 1000)
