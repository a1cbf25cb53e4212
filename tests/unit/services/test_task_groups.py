"""What becomes of the others when one of several calls fails."""

import asyncio

import pytest

from services.lifecycle import all_of, each_of


class Calls:
    """Calls that tell when they begin and how they end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended: list[str] = []

    async def waiting(self) -> str:
        """Wait for leave to end."""
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return "waited"

    async def failing(self) -> str:
        """Fail once the other has begun."""
        await self.begun.wait()
        raise LookupError("the first")


async def echo(word: str) -> str:
    await asyncio.sleep(0)
    return word


async def test_all_answers_come_in_the_order_of_the_calls() -> None:
    assert await all_of(map(echo, "cab")) == ["c", "a", "b"]
    assert await all_of([]) == []


async def test_the_first_that_fails_ends_the_others_before_it_is_raised() -> None:
    calls = Calls()
    with pytest.raises(LookupError, match="the first"):
        await all_of((calls.waiting(), calls.failing()))
    assert calls.ended == ["cancelled"]


async def test_a_failure_is_raised_when_each_of_the_others_is_done() -> None:
    calls = Calls()
    making = asyncio.ensure_future(each_of((calls.failing(), calls.waiting(), echo("x"))))
    await calls.begun.wait()
    assert await asyncio.wait((making,), timeout=0.05) == (set(), {making})
    calls.may_end.set()
    with pytest.raises(LookupError, match="the first"):
        await making
    assert calls.ended == ["done"]


async def test_of_several_failures_the_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(what: str) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError, match="one"):
        await each_of((fail("one"), fail("two")))
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["two"]
