"""Checks and conversions that the servicers share."""

import re
from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from executor_service.sandboxes.sandbox import Proof
from hermes.executor.v1 import sandbox_pb2
from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE
from services.rpc.auth import Identity, caller

_TEXT = re.compile(r"[^\0]*")
_Number = TypeVar("_Number", int, float)


def profile_of(name: str) -> str:
    """Return the profile of a request; empty is the default one."""
    return name or DEFAULT_PROFILE


def proof(lease: sandbox_pb2.Lease, profile: str) -> Proof:
    """Return the lease of a request, or the operator's proof without one."""
    shows_nothing = not lease.token and not lease.epoch
    is_operator = shows_nothing and caller() is Identity.OPERATOR
    return Proof(profile_of(profile), lease.sandbox_id, lease.token, lease.epoch, is_operator)


def seconds(field: str, duration: Duration, default: float, most: float) -> float:
    """Convert a duration; 0 is the default, and a negative or too long one is refused."""
    value = duration.ToNanoseconds() / 1e9
    return in_range(field, value, 0.0, most) or default


def in_range(field: str, value: _Number, least: _Number, most: _Number) -> _Number:
    """Refuse a number out of range."""
    if not least <= value <= most:
        wanted = f"{least:g} to {most:g}"
        raise InvalidArgument(f"{field} is out of range: {wanted}", fields={field: wanted})
    return value


def text(field: str, value: str) -> str:
    """Refuse text with NUL characters."""
    if not _TEXT.fullmatch(value):
        wanted = "text without NUL characters"
        raise InvalidArgument(f"{field}: {wanted} is wanted", fields={field: wanted})
    return value


def duration(value_s: float) -> Duration:
    """Convert seconds."""
    wire = Duration()
    wire.FromMilliseconds(round(value_s * 1000))
    return wire


def timestamp(moment: float) -> Timestamp:
    """Convert seconds since 1970."""
    wire = Timestamp()
    wire.FromDatetime(datetime.fromtimestamp(moment, UTC))
    return wire
