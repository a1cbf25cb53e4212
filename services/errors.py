"""The error tree of all services, and how errors travel over the wire.

HermesError
├── InvalidArgument       a field is missing or malformed
│   └── DigestMismatch    contents are not what was announced
├── NotFound              it does not exist, or belongs to another profile
├── AlreadyExists         the id was used before with a different request
├── Unauthenticated       no credential, or one that is not valid
├── PermissionDenied      the caller's identity may not do this
│   └── LeaseInvalid      a lease token is wrong or has expired
├── FailedPrecondition    the state does not allow this
├── Aborted               another caller was faster; read again and retry
│   └── StaleEpoch        a later owner has taken over
├── ResourceExhausted     nothing is left of a resource at the moment
│   └── LimitExceeded     a quota or a size limit would be exceeded
├── Unavailable           not possible at the moment; the same call may succeed later
│   ├── Draining          the service is shutting down
│   ├── DatabaseUnavailable
│   └── ServiceUnavailable
└── Internal              a bug, or a condition that nobody foresaw

A service adds subclasses in its own `errors.py`, each with a `Reason`. On the wire an error is a
`google.rpc.Status` with an `ErrorInfo`. Clients branch on the reason; exception classes are not
rebuilt.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar, Self, cast

import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from msgspec import Struct

DOMAIN = "hermes"
DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a serialized `google.rpc.Status`."""


class Reason(StrEnum):
    """The reasons of `hermes.common.v1.ErrorReason`, without prefix, and their gRPC statuses."""

    _value_: str
    status: StatusCode

    def __new__(cls, name: str, status: StatusCode) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.status = status
        return member

    INTERNAL = "INTERNAL", StatusCode.INTERNAL
    INVALID_ARGUMENT = "INVALID_ARGUMENT", StatusCode.INVALID_ARGUMENT
    NOT_FOUND = "NOT_FOUND", StatusCode.NOT_FOUND
    ALREADY_EXISTS = "ALREADY_EXISTS", StatusCode.ALREADY_EXISTS
    UNAUTHENTICATED = "UNAUTHENTICATED", StatusCode.UNAUTHENTICATED
    PERMISSION_DENIED = "PERMISSION_DENIED", StatusCode.PERMISSION_DENIED
    DRAINING = "DRAINING", StatusCode.UNAVAILABLE
    DATABASE_UNAVAILABLE = "DATABASE_UNAVAILABLE", StatusCode.UNAVAILABLE
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE", StatusCode.UNAVAILABLE
    STALE_EPOCH = "STALE_EPOCH", StatusCode.ABORTED
    LEASE_INVALID = "LEASE_INVALID", StatusCode.PERMISSION_DENIED
    BACKEND_UNAVAILABLE = "BACKEND_UNAVAILABLE", StatusCode.FAILED_PRECONDITION
    POOL_EXHAUSTED = "POOL_EXHAUSTED", StatusCode.RESOURCE_EXHAUSTED
    # Not UNAVAILABLE: the same call can never succeed, another sandbox must be acquired.
    SANDBOX_LOST = "SANDBOX_LOST", StatusCode.ABORTED
    PATH_INVALID = "PATH_INVALID", StatusCode.INVALID_ARGUMENT
    DIGEST_MISMATCH = "DIGEST_MISMATCH", StatusCode.INVALID_ARGUMENT
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED", StatusCode.RESOURCE_EXHAUSTED
    MODEL_NOT_CONFIGURED = "MODEL_NOT_CONFIGURED", StatusCode.FAILED_PRECONDITION
    MODEL_AUTH = "MODEL_AUTH", StatusCode.FAILED_PRECONDITION
    MODEL_BILLING = "MODEL_BILLING", StatusCode.FAILED_PRECONDITION
    MODEL_RATE_LIMITED = "MODEL_RATE_LIMITED", StatusCode.RESOURCE_EXHAUSTED
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE", StatusCode.UNAVAILABLE
    MODEL_CONTEXT_OVERFLOW = "MODEL_CONTEXT_OVERFLOW", StatusCode.FAILED_PRECONDITION
    MODEL_CONTENT_POLICY = "MODEL_CONTENT_POLICY", StatusCode.FAILED_PRECONDITION
    MODEL_BAD_RESPONSE = "MODEL_BAD_RESPONSE", StatusCode.INTERNAL
    SCHEDULE_INVALID = "SCHEDULE_INVALID", StatusCode.INVALID_ARGUMENT
    FAILED_PRECONDITION = "FAILED_PRECONDITION", StatusCode.FAILED_PRECONDITION
    POISON = "POISON", StatusCode.FAILED_PRECONDITION
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED", StatusCode.FAILED_PRECONDITION
    SCRIPT_FAILED = "SCRIPT_FAILED", StatusCode.FAILED_PRECONDITION


UNREACHABLE = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED}
)
"""The statuses of a call that no service answered."""

WRITTEN_TOO_LATE = "Internal error from Core"
"""gRPC's message, instead of the cause, if a stream ends while this side writes to it."""

MAX_MESSAGE_CHARS = 2000
"""Longer messages are cut, as trailing metadata is limited."""


class HermesError(Exception):
    """An error that a service raises on purpose, with a message for people, without secrets."""

    default_reason: ClassVar[Reason] = Reason.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields: Mapping[str, str] = fields or {}
        self.reason = reason or self.default_reason
        self.metadata: Mapping[str, str] = metadata or {}
        self.retry_after_s = retry_after_s


class InvalidArgument(HermesError):
    """A field is missing or malformed; `fields` maps field paths to problems."""

    default_reason = Reason.INVALID_ARGUMENT


class DigestMismatch(InvalidArgument):
    """The contents of a file are not what was announced; nothing was stored."""

    default_reason = Reason.DIGEST_MISMATCH


class NotFound(HermesError):
    """It does not exist or belongs to another profile; callers cannot tell which."""

    default_reason = Reason.NOT_FOUND


class AlreadyExists(HermesError):
    """The id was used before with a different request."""

    default_reason = Reason.ALREADY_EXISTS


class Unauthenticated(HermesError):
    """The caller sent no valid credential."""

    default_reason = Reason.UNAUTHENTICATED


class PermissionDenied(HermesError):
    """The caller's identity may not do this."""

    default_reason = Reason.PERMISSION_DENIED


class LeaseInvalid(PermissionDenied):
    """A lease token is wrong or has expired."""

    default_reason = Reason.LEASE_INVALID


class FailedPrecondition(HermesError):
    """The state does not allow this."""

    default_reason = Reason.FAILED_PRECONDITION


class Aborted(HermesError):
    """Another caller was faster; read again and retry."""

    default_reason = Reason.STALE_EPOCH


class StaleEpoch(Aborted):
    """A later owner has taken over from the caller."""


class ResourceExhausted(HermesError):
    """A resource is exhausted at the moment."""

    default_reason = Reason.LIMIT_EXCEEDED


class LimitExceeded(ResourceExhausted):
    """A quota or a size limit would be exceeded."""


class Unavailable(HermesError):
    """Not possible at the moment; the same call may succeed later."""

    default_reason = Reason.SERVICE_UNAVAILABLE


class Draining(Unavailable):
    """The service is shutting down and accepts no new work."""

    default_reason = Reason.DRAINING


class DatabaseUnavailable(Unavailable):
    """The database cannot be read or written at the moment."""

    default_reason = Reason.DATABASE_UNAVAILABLE


class ServiceUnavailable(Unavailable):
    """Another service cannot be reached."""


class Internal(HermesError):
    """A bug or an unforeseen condition; the log has the details."""


class ErrorDetails(Struct, frozen=True):
    """The details of a failed call."""

    reason: Reason
    message: str
    metadata: Mapping[str, str]
    fields: Mapping[str, str]
    retry_after_s: float | None


def to_status(error: HermesError) -> status_pb2.Status:
    """Return the `google.rpc.Status` that carries the error over the wire."""
    code: int = error.reason.status.value[0]
    message = error.message
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[: MAX_MESSAGE_CHARS - 1] + "…"
    status = status_pb2.Status(code=code, message=message)
    info = error_details_pb2.ErrorInfo(
        domain=DOMAIN, reason=error.reason.value, metadata=error.metadata
    )
    status.details.add().Pack(info)
    if error.fields:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=description)
            for field, description in error.fields.items()
        ]
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=violations))
    if error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after_s * 1000))
        status.details.add().Pack(retry)
    return status


def details_of(error: grpc.aio.AioRpcError) -> ErrorDetails:
    """Read the details of a failed call; a transport failure is SERVICE_UNAVAILABLE."""
    status = _wire_status(error)
    reason: Reason | None = None
    metadata: Mapping[str, str] = {}
    fields: Mapping[str, str] = {}
    retry_after_s: float | None = None
    for detail in status.details:
        info, bad, retry = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.BadRequest(),
            error_details_pb2.RetryInfo(),
        )
        if detail.Unpack(info) and info.domain == DOMAIN:
            # A later version may send a reason that is unknown here.
            reason = Reason.__members__.get(info.reason, Reason.INTERNAL)
            metadata = dict(info.metadata)
        elif detail.Unpack(bad):
            fields = {violation.field: violation.description for violation in bad.field_violations}
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToMilliseconds() / 1000
    said = error.details() or error.code().name
    if reason is None and (error.code() in UNREACHABLE or said == WRITTEN_TOO_LATE):
        reason, said = Reason.SERVICE_UNAVAILABLE, f"the service did not answer: {said}"
    return ErrorDetails(reason or Reason.INTERNAL, said, metadata, fields, retry_after_s)


def reason_of(error: grpc.aio.AioRpcError) -> Reason:
    """Return why a call failed, for a client to branch on."""
    return details_of(error).reason


def is_passing(error: grpc.aio.AioRpcError) -> bool:
    """Return whether the same call may succeed soon: the service is away or says when to retry."""
    details = details_of(error)
    is_unserved = details.reason in (Reason.SERVICE_UNAVAILABLE, Reason.DRAINING)
    return is_unserved or details.retry_after_s is not None


def message_of(error: grpc.aio.AioRpcError) -> str:
    """Return the error message for people."""
    return details_of(error).message


def _wire_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in trailing:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                break
    return status_pb2.Status()
