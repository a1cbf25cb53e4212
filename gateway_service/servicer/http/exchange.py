"""Requests and answers of the HTTP listener, independent of its server."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from grpc import StatusCode
from msgspec import Struct, field

from services.errors import HermesError, InvalidArgument, Reason
from services.validation import T, decode

JSON = "application/json"
SESSION_HEADER = "X-Hermes-Session-Id"


class Call(Struct, frozen=True):
    """A request that was let in."""

    profile: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = b""
    named: str = ""
    """The id in the path."""


class Reply(Struct, frozen=True):
    """A whole response."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = JSON


class EventStream(Struct, frozen=True):
    """A response of server-sent events."""

    chunks: AsyncGenerator[bytes]
    headers: Mapping[str, str]


Handler: TypeAlias = Callable[[Call], Awaitable[Reply | EventStream]]

_HTTP = {
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.UNAUTHENTICATED: 401,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.ABORTED: 409,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.UNAVAILABLE: 503,
}
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def encode(document: object) -> bytes:
    """Return a document as JSON."""
    return msgspec.json.encode(document)


def json_reply(document: object, status: int = 200) -> Reply:
    """Return a document as a response."""
    return Reply(encode(document), status)


def read(body: bytes, kind: type[T]) -> T:
    """Decode a request; InvalidArgument if it is not valid."""
    try:
        return decode(body, kind)
    except (msgspec.DecodeError, RecursionError) as error:
        what, _, where = str(error).partition(" - at ")
        name = where.strip("`").removeprefix("$.")
        raise InvalidArgument(
            f"the body is not valid: {what}", fields={name: what} if name else {}
        ) from None


def status_of(reason: Reason) -> int:
    """Return the HTTP status of an error; one of the model is not the client's fault."""
    status = _HTTP.get(reason.status, 500)
    return 502 if status == 400 and reason.name.startswith("MODEL_") else status


def error_document(message: str, status: int, code: str = "", parameter: str = "") -> Any:
    """Return an error in OpenAI's shape."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    details = {"message": message, "type": kind, "param": parameter or None, "code": code or None}
    return {"error": details}


def describe(error: HermesError) -> Any:
    """Return one of our errors in OpenAI's shape."""
    return error_document(
        error.message,
        status_of(error.reason),
        error.metadata.get("code") or error.reason.value.lower(),
        next(iter(error.fields), ""),
    )


def refuse(
    error: HermesError, *, may_retry: bool = True, headers: Mapping[str, str] | None = None
) -> Reply:
    """Return an error as a response; without `may_retry` the SDK does not repeat the request."""
    named = dict(headers or {})
    if not may_retry:
        named["X-Should-Retry"] = "false"
    elif error.retry_after_s is not None:
        named["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return Reply(encode(describe(error)), status_of(error.reason), named)


def event(document: object, name: str = "", number: int = 0) -> bytes:
    """Return a server-sent event."""
    head = (f"event: {name}\n" if name else "") + (f"id: {number}\n" if number else "")
    return b"%sdata: %s\n\n" % (head.encode(), encode(document))
