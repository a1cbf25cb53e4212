"""Errors of the model seam, and when a failed call is retried."""

import random
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class ModelErrorKind(StrEnum):
    """Why a model call failed, as far as it matters for what happens next."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    CONTEXT_OVERFLOW = "context_overflow"
    CONTENT_POLICY = "content_policy"
    NO_SUCH_MODEL = "no_such_model"
    BAD_REQUEST = "bad_request"
    CONNECTION = "connection"
    CUT_STREAM = "cut_stream"
    EMPTY = "empty"

    @property
    def retryable(self) -> bool:
        """Return whether the same request may succeed a moment later."""
        return self in _RETRYABLE


_RETRYABLE = frozenset(
    {
        ModelErrorKind.RATE_LIMIT,
        ModelErrorKind.OVERLOADED,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.CONNECTION,
        ModelErrorKind.CUT_STREAM,
        ModelErrorKind.EMPTY,
    }
)

REST_S: Mapping[ModelErrorKind, float] = {
    ModelErrorKind.AUTH: 600.0,
    ModelErrorKind.BILLING: 600.0,
    ModelErrorKind.RATE_LIMIT: 60.0,
}
"""How long a refused key rests, by the kind of refusal, if its provider does not say."""
_LONGEST_REST_S = 3600.0


class ModelError(Exception):
    """A model call failed; `str()` of it tells the user what happened and what to do.

    `status` is the HTTP status, `detail` the provider's own words, both None or empty
    where there was no answer. Neither text contains the key.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.status = status
        self.detail = detail

    @property
    def retryable(self) -> bool:
        return self.kind.retryable

    def rest_s(self, usual_s: float) -> float:
        """Return how long a failed key or endpoint rests; `usual_s` unless the provider says so."""
        asked_s = usual_s if self.retry_after_s is None else self.retry_after_s
        return min(asked_s, _LONGEST_REST_S)


class InvalidEndpoint(Exception):
    """The configured endpoint cannot work; `str()` says what to set."""


class RetryPolicy(Struct, frozen=True):
    """Exponential back-off with jitter; a delay that the provider asks for takes precedence.

    If it asks for more than `longest_wait_s`, the call fails and the user is told.
    """

    max_retries: int = 3
    first_delay_s: float = 0.5
    longest_delay_s: float = 8.0
    longest_wait_s: float = 60.0

    def delay_s(self, attempt: int, error: ModelError) -> float | None:
        """Return the pause after the given failed attempt (from 1), or None to give up."""
        if not error.retryable or attempt > self.max_retries:
            return None
        jitter = random.random()  # noqa: S311 - spreads callers, keeps no secret
        if error.retry_after_s is not None:
            wait = error.retry_after_s * (1 + jitter / 10)
            return wait if error.retry_after_s <= self.longest_wait_s else None
        delay = min(self.longest_delay_s, self.first_delay_s * 2 ** (attempt - 1))
        return delay * (1 + jitter) / 2
