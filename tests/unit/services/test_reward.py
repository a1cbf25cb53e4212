"""Rewards: the score, less for time and length beyond limits."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.common.v1.usage_pb2 import Usage
from hermes.scheduler.v1.batch_item_pb2 import BatchItem, ItemResult
from services.home.batches.reward import Shaping, reward

scores = st.floats(0, 1)
seconds = st.integers(0, 10_000)
tokens = st.integers(0, 1_000_000)
LIMITS = Shaping(time_limit_s=100, token_limit=1000, penalty=0.2)


def item(score: float | None, used_s: int = 0, used_tokens: int = 0) -> BatchItem:
    usage = Usage(completion_tokens=used_tokens)
    made = BatchItem(result=ItemResult(score=score, usage=usage))
    made.start_time.FromSeconds(1000)
    made.finish_time.FromSeconds(1000 + used_s)
    return made


@given(scores, seconds, tokens)
def test_a_reward_is_at_most_the_score_and_keeps_most_of_it(
    score: float, used_s: int, used_tokens: int
) -> None:
    found = reward(item(score, used_s, used_tokens))
    assert score * 0.5625 <= found + 1e-9 <= score + 1e-9


@given(scores, st.integers(0, 600), st.integers(0, 16_000))
def test_within_the_limits_the_score_stays(score: float, used_s: int, used_tokens: int) -> None:
    assert reward(item(score, used_s, used_tokens)) == score


@given(scores, scores, seconds, seconds, tokens, tokens)
def test_more_score_and_less_time_and_length_are_never_worse(
    score: float, more: float, used_s: int, less_s: int, used_tokens: int, fewer: int
) -> None:
    worse = item(min(score, more), max(used_s, less_s), max(used_tokens, fewer))
    better = item(max(score, more), min(used_s, less_s), min(used_tokens, fewer))
    assert reward(worse) <= reward(better)


def test_time_and_length_cost_evenly_from_the_limit_to_twice_the_limit() -> None:
    found = [
        reward(item(1, *used), LIMITS) for used in ((150, 0), (0, 1500), (200, 0), (999, 9999))
    ]
    assert [round(each, 6) for each in found] == [0.9, 0.9, 0.8, 0.64]


def test_without_a_score_there_is_no_reward() -> None:
    assert reward(item(None)) == 0
    assert reward(BatchItem()) == 0
