"""Requests and answers of the HTTP listener, independent of its server, and who may use it."""

import hmac
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from grpc import StatusCode
from msgspec import Struct, field

from gateway_service.platforms.api_config import LOOPBACK, ApiConfig
from services.errors import HermesError, InvalidArgument, PermissionDenied, Reason, Unauthenticated
from services.validation import T, decode

_BEARER = "bearer "


FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What proxies add; without a key, only this machine itself may use the API."""


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


class Guard(Struct, frozen=True):
    """Lets in who has the key, or who is on this machine if none is needed."""

    config: ApiConfig

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise Unauthenticated or PermissionDenied unless the request may be answered."""
        key = self.config.key.get_secret_value()
        if not key:
            self._check_local(headers)
        elif not hmac.compare_digest(key_of(headers).encode(), key.encode()):
            raise Unauthenticated(
                "the key is missing or not valid; send it as Authorization: Bearer KEY",
                metadata={"code": "invalid_api_key"},
            )

    def allows_origin(self, origin: str) -> bool:
        return origin in self.config.cors_origins

    def _check_local(self, headers: Mapping[str, str]) -> None:
        # Without a key, a page in this machine's browser must not reach the API, neither directly
        # nor by a name of its own that resolves to this machine.
        origin = headers.get("origin", "")
        if origin and not self.allows_origin(origin):
            raise PermissionDenied(f"pages of {origin} may not use this API")
        if any(name in headers for name in FORWARDED):
            raise PermissionDenied("without a key, the API is not served through a proxy")
        name = re.sub(r":\d*$", "", headers.get("host", "")).strip("[]")
        if name not in LOOPBACK:
            raise PermissionDenied("without a key, the API is only served to this machine")


def key_of(headers: Mapping[str, str]) -> str:
    """Return the key that a request has, or empty."""
    given = headers.get("authorization", "")
    return given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else ""
