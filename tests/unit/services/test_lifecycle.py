"""Tasks and the life of a process."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from services.errors import Draining
from services.lifecycle import Failure, Shutdown, Workers, all_of, each_of

_STUBBORN = """
import asyncio
from services.lifecycle import Shutdown

async def main():
    async with Shutdown() as shutdown:
        print("ready", flush=True)
        print(await shutdown.wait(), flush=True)
        await shutdown.drain({"forever": asyncio.Event().wait})

asyncio.run(main())
"""


async def _forever() -> None:
    await asyncio.Event().wait()


async def _fail(message: str) -> None:
    raise ValueError(message)


async def test_a_failure_is_logged_and_told_and_ends_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted: list[Failure] = []
    async with Workers(counted.append) as workers:
        sibling = workers.start("turn trn_2", _forever())
        failed = workers.start("turn trn_1", _fail("boom"))
        await asyncio.wait([failed])
        await asyncio.sleep(0)
        assert not sibling.done()
        assert workers.names == ("turn trn_2",)
        assert len(workers) == 1
    (failure,) = counted
    assert failure.name == "turn trn_1"
    assert repr(failure.error) == "ValueError('boom')"
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "turn trn_1" in record.getMessage()
    assert record.exc_info is not None


async def test_the_end_of_the_group_is_the_end_of_its_workers() -> None:
    cleaned = False

    async def tidy() -> None:
        nonlocal cleaned
        try:
            await _forever()
        finally:
            await asyncio.sleep(0.01)
            cleaned = True

    async with Workers() as workers:
        task = workers.start("tidy", tidy())
        await asyncio.sleep(0)
    assert cleaned
    assert task.cancelled()


async def test_a_group_that_is_cancelled_while_it_ends_waits_and_then_is_cancelled() -> None:
    cleaned = asyncio.Event()
    cleaning = asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await _forever()
        finally:
            cleaning.set()
            await asyncio.sleep(0.05)
            cleaned.set()

    async def group() -> None:
        async with Workers() as workers:
            workers.start("slow", slow_to_end())
            await asyncio.sleep(0)

    task = asyncio.ensure_future(group())
    await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_draining_starts_nothing_more_and_names_who_is_left() -> None:
    async with Workers() as workers:
        workers.start("quick", asyncio.sleep(0))
        workers.start("turn trn_9", _forever())
        assert await workers.drain(0.05) == ("turn trn_9",)
        with pytest.raises(Draining):
            workers.start("too late", _forever())


async def test_a_signal_asks_for_an_end_and_steps_run_in_order() -> None:
    done: list[str] = []

    async def step(name: str) -> None:
        await asyncio.sleep(0)
        done.append(name)

    async with Shutdown() as shutdown:
        os.kill(os.getpid(), signal.SIGTERM)
        assert await shutdown.wait() == "SIGTERM"
        await shutdown.drain({name: partial(step, name) for name in ("claims", "leases")})
    assert done == ["claims", "leases"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_ctrl_c_and_a_lost_terminal_ask_to_stop_as_well(number: signal.Signals) -> None:
    async with Shutdown() as shutdown:
        os.kill(os.getpid(), number)
        assert await shutdown.wait() == number.name


async def test_a_signal_that_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with Shutdown() as shutdown:
            os.kill(os.getpid(), signal.SIGHUP)
            shutdown.request("asked")
            assert await shutdown.wait() == "asked"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_step_that_fails_does_not_keep_the_others_from_running() -> None:
    done: list[str] = []

    async def last() -> None:
        done.append("last")

    async with Shutdown() as shutdown:
        shutdown.request("asked")
        assert await shutdown.wait() == "asked"
        await shutdown.drain({"fails": partial(_fail, "boom"), "last": last})
    assert done == ["last"]


async def test_steps_together_get_no_more_than_the_grace(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    async with Shutdown(grace_s=0.05) as shutdown:
        start = loop.time()
        await shutdown.drain({"stuck": _forever})
        assert loop.time() - start < 5
    assert "stuck was not drained" in caplog.text


def test_a_second_signal_ends_the_process_at_once() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STUBBORN], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "SIGINT\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT


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
