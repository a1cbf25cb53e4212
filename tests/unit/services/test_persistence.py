"""What may be away is called until it answers, less and less often."""

import logging

import pytest

from services.database.retries import until_answered
from services.errors import FailedPrecondition, HermesError, ServiceUnavailable
from tests.fakes.clock import HastyClock


class Away:
    """Answers, or refuses, after so many calls."""

    def __init__(self, calls: int, refusal: HermesError | None = None) -> None:
        self._left = calls
        self._refusal = refusal

    async def call(self) -> str:
        self._left -= 1
        if self._left >= 0:
            raise ServiceUnavailable("it is away")
        if self._refusal is not None:
            raise self._refusal
        return "here"


async def test_it_is_called_until_it_answers_and_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = HastyClock()
    with caplog.at_level(logging.WARNING):
        assert await until_answered(clock, "run one", Away(6).call, 1.0) == "here"
    longest = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(clock.slept) == len(longest)
    for slept, most in zip(clock.slept, longest, strict=True):
        assert most / 2 <= slept <= most
    assert [record.message for record in caplog.records] == ["run one waits: it is away"]


async def test_an_answer_that_says_no_is_one() -> None:
    refused = FailedPrecondition("never")
    with pytest.raises(FailedPrecondition, match="never"):
        await until_answered(HastyClock(), "run", Away(2, refused).call)
