"""What model calls used, summed up."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict, astuple

from agent_service.records.model import ModelMessage
from agent_service.records.model import Usage as CallUsage


class Usage(Struct, frozen=True):
    """Sums over model calls; `cost_micro_usd` counts only calls whose price is known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micro_usd: int = 0
    call_count: int = 0
    cache_write_tokens: int = 0

    @classmethod
    def of_call(cls, call: CallUsage | None) -> "Usage":
        """The usage of one model call, of which the provider may have said nothing."""
        if call is None:
            return cls(call_count=1)
        fields = asdict(call) | {"cost_micro_usd": call.cost_micro_usd or 0}
        return cls(**fields, call_count=1)

    @classmethod
    def of_answers(cls, answers: Iterable[ModelMessage]) -> "Usage":
        """What several model calls used together."""
        return sum((cls.of_call(answer.usage) for answer in answers), cls())

    @property
    def tokens(self) -> int:
        """All of them, sent and received."""
        return self.prompt_tokens + self.completion_tokens

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))
