"""Rewards of items for training."""

from msgspec import Struct

from hermes.scheduler.v1.batch_item_pb2 import BatchItem


class Shaping(Struct, frozen=True):
    """How time and length lessen a score.

    Within a limit they cost nothing; from there to twice the limit, they cost evenly up to
    `penalty`, a part of the score, each.
    """

    time_limit_s: float = 600.0
    token_limit: int = 16_000
    """Generated tokens, reasoning included."""
    penalty: float = 0.25


def reward(item: BatchItem, shaping: Shaping = Shaping()) -> float:  # noqa: B008 - frozen
    """Return the shaped score of an item that has ended, 0 to 1; 0 without a score."""
    used_s = (item.finish_time.ToDatetime() - item.start_time.ToDatetime()).total_seconds()
    used_tokens = item.result.usage.completion_tokens
    kept = _kept(used_s / shaping.time_limit_s, shaping)
    return item.result.score * kept * _kept(used_tokens / shaping.token_limit, shaping)


def _kept(used: float, shaping: Shaping) -> float:
    """Return which part of the score stays where `used` times a limit was used."""
    return 1 - shaping.penalty * min(1.0, max(0.0, used - 1))
