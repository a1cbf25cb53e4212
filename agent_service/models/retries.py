"""When to call a model again after a failure, and how long to wait before."""

import random

from msgspec import Struct

from agent_service.models.errors import ModelError


class RetryPolicy(Struct, frozen=True):
    """Exponential back-off with jitter; what the provider asks for goes first.

    A provider that asks for more than `longest_wait_s` is not waited for: the user is told.
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
