"""Usage of model calls."""

from msgspec import Struct
from msgspec.structs import astuple


class Usage(Struct, frozen=True):
    """The usage of one or several model calls.

    Prompt tokens include those read from and written to a cache; completion tokens include
    reasoning. `cost_micro_usd` is None if no price is known, and sums leave such calls out.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micro_usd: int | None = None
    cache_write_tokens: int = 0
    call_count: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __sub__(self, other: "Usage") -> "Usage":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*((a or 0) - (b or 0) for a, b in pairs))

    def __add__(self, other: "Usage") -> "Usage":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*((a or 0) + (b or 0) for a, b in pairs))
