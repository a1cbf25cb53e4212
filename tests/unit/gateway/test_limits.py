"""How much may be sent to a chat."""

from gateway_service.platforms.rate_limits import Limiter, Rate
from tests.fakes.clock import ManualClock


async def test_a_chat_has_a_burst_and_then_a_rate() -> None:
    clock = ManualClock()
    limiter = Limiter(Rate(per_second=2.0, burst=3), clock.monotonic)
    for _ in range(3):
        assert limiter.wait_s("1") == 0
        limiter.take("1")
    assert limiter.wait_s("1") == 0.5
    assert limiter.wait_s("2") == 0
    await clock.advance(0.25)
    assert limiter.wait_s("1") == 0.25
    await clock.advance(60)
    for _ in range(3):
        assert limiter.wait_s("1") == 0
        limiter.take("1")
    assert limiter.wait_s("1") > 0


async def test_what_may_be_left_out_leaves_the_last_one() -> None:
    clock = ManualClock()
    limiter = Limiter(Rate(per_second=1.0, burst=3), clock.monotonic)
    assert [limiter.try_take("1") for _ in range(3)] == [True, True, False]
    assert limiter.wait_s("1") == 0


async def test_nothing_is_sent_while_the_platform_wants_us_to_wait() -> None:
    clock = ManualClock()
    limiter = Limiter(Rate(per_second=1.0, burst=3), clock.monotonic)
    limiter.penalize(30)
    limiter.penalize(10)
    assert limiter.wait_s("1") == 30
    assert not limiter.try_take("2")
    await clock.advance(30)
    assert limiter.wait_s("1") == 0
    assert limiter.try_take("2")


async def test_full_buckets_are_forgotten() -> None:
    clock = ManualClock()
    limiter = Limiter(Rate(per_second=1.0, burst=3), clock.monotonic)
    for chat in range(100):
        limiter.take(str(chat))
    await clock.advance(3600)
    limiter.take("new")
    assert len(limiter) == 1
