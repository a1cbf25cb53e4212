"""Rate limits: one token bucket for each chat, and pauses that a platform asks for."""

from collections.abc import Callable

from msgspec import Struct

_FULL_AFTER_S = 600.0


class Rate(Struct, frozen=True):
    """What a platform allows in a chat."""

    per_second: float
    burst: int


class _Bucket(Struct):
    tokens: float
    filled_at: float


class Limiter:
    """The buckets of an account, held by the account's owner."""

    def __init__(self, rate: Rate, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._buckets: dict[str, _Bucket] = {}
        self._penalty_ends_at = 0.0

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, chat_id: str) -> float:
        short_of = 1 - self._bucket(chat_id).tokens
        return max(short_of / self._rate.per_second, self.penalty_s)

    @property
    def penalty_s(self) -> float:
        """Return for how long the platform wants to get nothing."""
        return max(0.0, self._penalty_ends_at - self._monotonic())

    def take(self, chat_id: str) -> None:
        self._bucket(chat_id).tokens -= 1

    def try_take(self, chat_id: str) -> bool:
        """Take a token for something optional, unless it is the last one."""
        if self._penalty_ends_at > self._monotonic():
            return False
        bucket = self._bucket(chat_id)
        if bucket.tokens < min(2, self._rate.burst):
            return False
        bucket.tokens -= 1
        return True

    def penalize(self, retry_after_s: float) -> None:
        self._penalty_ends_at = max(self._penalty_ends_at, self._monotonic() + retry_after_s)

    def _bucket(self, chat_id: str) -> _Bucket:
        now = self._monotonic()
        bucket = self._buckets.get(chat_id)
        if bucket is None:
            self._forget_full(now)
            bucket = self._buckets[chat_id] = _Bucket(float(self._rate.burst), now)
        gained = (now - bucket.filled_at) * self._rate.per_second
        bucket.tokens = min(self._rate.burst, bucket.tokens + gained)
        bucket.filled_at = now
        return bucket

    def _forget_full(self, now: float) -> None:
        """Drop buckets of idle chats; they are full."""
        for chat_id, bucket in list(self._buckets.items()):
            if now - bucket.filled_at > _FULL_AFTER_S:
                del self._buckets[chat_id]
