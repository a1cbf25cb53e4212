"""Maps failures of endpoints to a `ModelError` that says what to do."""

import errno
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from agent_service.models.endpoints import Endpoint
from agent_service.models.wires.wire import Json, error_text, minimax_error, objects_of
from agent_service.records.model_errors import ModelError, ModelErrorKind
from services.redaction.redactor import Redactor

Kind = ModelErrorKind

_MAX_DETAIL_CHARS = 300

_BY_STATUS: Mapping[int, Kind] = {
    401: Kind.AUTH,
    402: Kind.BILLING,
    403: Kind.AUTH,
    404: Kind.NO_SUCH_MODEL,
    408: Kind.TIMEOUT,
    413: Kind.CONTEXT_OVERFLOW,
    429: Kind.RATE_LIMIT,
    504: Kind.TIMEOUT,
    524: Kind.TIMEOUT,
}

_STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "usage_limit_reached": 429,
    "slow_down": 429,
    "api_error": 500,
    "server_error": 500,
    "server_is_overloaded": 503,
    "timeout_error": 504,
    "vector_store_timeout": 504,
    "overloaded_error": 529,
}
"""Statuses of errors inside a stream, by their code or type."""
_CODES = ("code", "type", "status", "status_code")
_MOST_WRAPPERS = 5
_TITLE = re.compile(r"<title>([^<]*)", re.IGNORECASE)
"""What a proxy's web page says of an error."""

# Providers share few error codes, so match their words where the status alone is ambiguous.
_BY_WORDS: tuple[tuple[frozenset[int], Kind, re.Pattern[str]], ...] = (
    (
        frozenset({400, 413, 422, 500}),
        Kind.CONTEXT_OVERFLOW,
        re.compile(
            r"context_length_exceeded|maximum context length|context (window|size|length|limit)"
            r"|prompt is too long|too many (input )?tokens|exceed_context_size|reduce the length",
            re.IGNORECASE,
        ),
    ),
    (
        frozenset({400, 403, 422}),
        Kind.CONTENT_POLICY,
        re.compile(
            r"content[ _](policy|filter|management)|moderation|flagged|safety system", re.IGNORECASE
        ),
    ),
    (
        frozenset({400}),
        Kind.AUTH,
        re.compile(r"api[ _]key (is )?(not valid|invalid)|invalid[ _]api[ _]key", re.IGNORECASE),
    ),
    (
        frozenset({400, 403}),
        Kind.NO_SUCH_MODEL,
        re.compile(
            r"model_not_found|model not exist|(unknown|invalid) model\b|not a valid model",
            re.IGNORECASE,
        ),
    ),
    (
        frozenset({400, 403, 429}),
        Kind.BILLING,
        re.compile(
            r"insufficient[_ ](quota|credit|balance|funds)|payment required|out of credits"
            r"|credit balance is too low",
            re.IGNORECASE,
        ),
    ),
)
_ADVICE: Mapping[Kind, str] = {
    Kind.AUTH: "The model endpoint {url} refused the key: check {key_name}.",
    Kind.BILLING: "The account at {url} has no credit left: top it up, or choose another model.",
    Kind.RATE_LIMIT: "The model endpoint {url} limits requests: wait, or choose another model.",
    Kind.OVERLOADED: "The model endpoint {url} is overloaded or failing{http}: "
    "try again later, or choose another model.",
    Kind.TIMEOUT: "The model endpoint {url} took too long{http}: "
    "try again later, or choose another model.",
    Kind.CONTEXT_OVERFLOW: "The conversation is too long for {model}: "
    "start a new session, or choose a model with a larger window.",
    Kind.CONTENT_POLICY: "The content policy of {url} stopped the answer: "
    "put the request in other words, or choose another model.",
    Kind.NO_SUCH_MODEL: "{url} has no model {model}, or is no model endpoint: "
    "check the name and the base URL.",
    Kind.BAD_REQUEST: "The model endpoint {url} rejected the request{http}.",
}

# This reads like a context overflow, but a smaller output cap fixes it, not a shorter conversation.
_CAP_TOO_LARGE = re.compile(
    r"max_(completion_)?tokens\b.{0,40}too (large|big|high)|\bmax_tokens: \d+ > \d+", re.IGNORECASE
)


def http_failure(
    endpoint: Endpoint, model: str, status: int, headers: Mapping[str, str], body: object
) -> ModelError:
    """Return the error for an unsuccessful response."""
    detail = _clean(_detail(body), endpoint)
    kind = _kind(status, f"{_code(body)} {detail}")
    asked_s = retry_after_s(headers, datetime.now(UTC))
    return ModelError(
        kind,
        _message(kind, endpoint, model, status, detail),
        retry_after_s=_resets_in_s(body) if asked_s is None else asked_s,
        status=status,
        detail=detail,
    )


def stream_failure(endpoint: Endpoint, model: str, error: object) -> ModelError:
    """Return the error that a provider reported inside a started stream."""
    told = _error_object(error)
    code = _code(error)
    names = [] if isinstance(told, str) else [str(told.get(name)) for name in _CODES]
    status = next((found for name in names if (found := _status(name))), 0)
    detail = _clean(_detail(error), endpoint)
    kind = _kind(status or 400, f"{code} {detail}")
    if status == 0 and kind is Kind.BAD_REQUEST:
        kind = Kind.OVERLOADED  # the request was accepted, so the server failed
    return ModelError(
        kind, _message(kind, endpoint, model, status, detail), status=status or None, detail=detail
    )


NO_CONNECTION = "no connection within"
"""How the reason begins if nothing answered at all."""


def connection_failure(endpoint: Endpoint, reason: str) -> ModelError:
    """Return the error for an endpoint that is unreachable or hung up."""
    advice = "check that the URL is right, that the server runs and that this machine is online"
    if reason == os.strerror(errno.ECONNREFUSED):
        advice = "nothing listens there; start the server, or check the host and port"
    if reason.startswith(NO_CONNECTION):
        advice = (
            "check that the address is right; if it is, a firewall drops the connection, in "
            "Kubernetes a NetworkPolicy (agent.extraEgress of the chart)"
        )
    said = _clean(reason, endpoint)
    return ModelError(
        Kind.CONNECTION, f"Cannot reach the model endpoint {endpoint.shown_url} ({said}): {advice}."
    )


def proxy_failure(endpoint: Endpoint, reason: str) -> ModelError:
    """Return the error for a proxy that cannot be used; nothing was sent."""
    message = f"Cannot reach the model endpoint {endpoint.shown_url}: {reason}."
    return ModelError(Kind.BAD_REQUEST, message)


def timeout_failure(endpoint: Endpoint, idle_s: float) -> ModelError:
    """Return the error for a silent endpoint."""
    return ModelError(
        Kind.TIMEOUT,
        f"The model endpoint {endpoint.shown_url} sent nothing for {idle_s:g} s: "
        "try again later, or choose another model.",
    )


def cut_failure(endpoint: Endpoint, reason: str) -> ModelError:
    """Return the error for a stream that was cut off or is unreadable."""
    return ModelError(
        Kind.CUT_STREAM,
        f"The model endpoint {endpoint.shown_url} broke off its answer "
        f"({_clean(reason, endpoint)}): try again.",
    )


def empty_failure(endpoint: Endpoint, model: str, finish_reason: str) -> ModelError:
    """Return the error for an answer with neither text nor a tool call."""
    if finish_reason == "length":
        return ModelError(
            Kind.BAD_REQUEST,
            f"The model {model} used up its output tokens before it answered: "
            "raise model.max_tokens.",
        )
    if finish_reason == "content_filter":
        message = _message(Kind.CONTENT_POLICY, endpoint, model, 0, "")
        return ModelError(Kind.CONTENT_POLICY, message)
    return ModelError(
        Kind.EMPTY,
        f"The model {model} at {endpoint.shown_url} answered nothing: "
        "try again, or choose another model.",
    )


def not_a_stream_failure(endpoint: Endpoint, content_type: str) -> ModelError:
    """Return the error for a successful response that is no chat completion."""
    return ModelError(
        Kind.BAD_REQUEST,
        f"{endpoint.shown_url} answered with {_clean(content_type, endpoint) or 'no content type'} "
        "instead of a chat completion: check the base URL; most end in /v1.",
    )


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return how long the provider asks to wait, from any form of its header."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _resets_in_s(body: object) -> float | None:
    error = _error_object(body)
    told = "" if isinstance(error, str) else error.get("resets_in_seconds")
    return _number(str(told or ""))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _kind(status: int, words: str) -> Kind:
    if _CAP_TOO_LARGE.search(words):
        return Kind.BAD_REQUEST
    for statuses, kind, pattern in _BY_WORDS:
        if status in statuses and pattern.search(words):
            return kind
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return Kind.OVERLOADED if status >= 500 else Kind.BAD_REQUEST


def _message(kind: Kind, endpoint: Endpoint, model: str, status: int, detail: str) -> str:
    advice = _ADVICE[kind]
    if kind is Kind.AUTH and not endpoint.api_key.get_secret_value():
        advice = "The model endpoint {url} wants a key: set {key_name}."
    elif kind is Kind.AUTH and endpoint.login:
        advice = "The model endpoint {url} refused the login: run {key_name}."
    elif kind is Kind.BAD_REQUEST and _CAP_TOO_LARGE.search(detail):
        advice = "The model {model} cannot write that much: lower model.max_tokens."
    message = advice.format(
        url=endpoint.shown_url,
        model=model,
        key_name=endpoint.key_name,
        http=f" (HTTP {status})" if status else "",
    )
    return f"{message} It says: {detail}" if detail else message


def _error_object(body: object) -> Json | str:
    """Return the error object of a body, which providers wrap differently, or its words."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(body, str):
            text, body = body, _documents(body)
            if not body:
                return text
        if isinstance(body, list):
            items = cast("list[object]", body)
            body = next(iter(objects_of(items) or items), "")
        if not isinstance(body, dict):
            return body if isinstance(body, str) else ""
        found = cast("Json", body)
        named = found.get("error") or found.get("errors")
        inner = named or objects_of(found.get("detail")) or minimax_error(found)
        if not inner or not isinstance(inner, str | list | dict):
            return found
        if isinstance(inner, str) and error_text(found):
            return found
        body = cast("object", inner)
    return ""


def _documents(text: str) -> list[Json]:
    """The objects of JSON that a text is or has in its lines, as events of a stream or not."""
    found: list[Json] = []
    for line in (text, *text.splitlines()):
        with suppress(ValueError, RecursionError):
            value: object = json.loads(line.removeprefix("data:"))
            found += objects_of(value)
    return found


def _detail(body: object) -> str:
    error = _error_object(body)
    if isinstance(error, str):
        title = _TITLE.search(error) if error.lstrip().startswith("<") else None
        return title[1] if title else error
    message = error_text(error) or (json.dumps(error, ensure_ascii=False) if error else "")
    place = error.get("loc")
    if isinstance(place, list):  # FastAPI says which field is wrong
        message = f"{'.'.join(map(str, cast('list[object]', place)))}: {message}"
    metadata = error.get("metadata")
    raw = cast("Mapping[str, Any]", metadata).get("raw") if isinstance(metadata, dict) else None
    return f"{message} ({raw})" if isinstance(raw, str) and raw else message


def _code(body: object) -> str:
    error = _error_object(body)
    if isinstance(error, str):
        return ""
    return str(error.get("code") or error.get("type") or "")


def _status(name: str) -> int:
    if name.isdecimal():
        return int(name) if 400 <= int(name) < 600 else 0
    return _STATUSES.get(name, 0)


def _clean(text: str, endpoint: Endpoint) -> str:
    key = endpoint.api_key.get_secret_value()
    hidden = Redactor([key]).redact(text.replace(key, "[key]") if key else text)
    line = " ".join("".join(char if char.isprintable() else " " for char in hidden).split())
    return line if len(line) <= _MAX_DETAIL_CHARS else line[:_MAX_DETAIL_CHARS] + "…"
