"""What watchers of a live turn get, early or late, fast or slow."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

from agent_service.records.events import (
    Live,
    Notice,
    Recorded,
    TextDelta,
    TextFinished,
    TextSnapshot,
    ToolFinished,
    ToolProgress,
    TurnFinished,
    TurnStarted,
)
from agent_service.records.events import Outcome as TurnOutcome
from agent_service.turns.event_streams import PROGRESS_KEPT_CHARS, Subscription, TurnStream

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def live(event: Live) -> Recorded:
    return Recorded(0, NOW, 1, event)


async def drain(subscription: Subscription) -> list[Recorded]:
    """Everything that a subscription gives until it is closed."""
    subscription.close()
    return [item async for batch in subscription.events() for item in batch]


async def test_a_late_watcher_gets_the_text_so_far_and_then_the_rest() -> None:
    stream = TurnStream([Recorded(1, NOW, 1, TurnStarted("s", "m"))], 1, "default")
    stream.publish(live(TextDelta("Hello ", 1, 0)))
    late = stream.subscribe(0, NOW)
    stream.publish(live(TextDelta("there", 1, 6)))
    got = [item.event for item in await drain(late)]
    assert got == [TurnStarted("s", "m"), TextSnapshot(1, "Hello ", ""), TextDelta("there", 1, 6)]


async def test_a_late_watcher_gets_the_output_of_running_tools_so_far() -> None:
    stream = TurnStream([], 1, "default")
    stream.publish(live(ToolProgress("over", "gone")))
    stream.publish(live(ToolProgress("running", "one, ")))
    stream.publish(live(ToolProgress("running", "two, ")))
    stream.publish(Recorded(1, NOW, 1, ToolFinished("over", "terminal", False, 0, "", 1, "gone")))
    late = stream.subscribe(1, NOW)
    stream.publish(live(ToolProgress("running", "three")))
    got = [item.event for item in await drain(late)]
    assert got == [ToolProgress("running", "one, two, three")]


async def test_who_has_seen_nothing_yet_is_told_what_others_were_told() -> None:
    stream = TurnStream([], 1, "default")
    started, finished = TurnStarted("s", "m"), TextFinished(1, "Hello.", 0)
    stream.publish(Recorded(1, NOW, 1, started))
    stream.publish(live(Notice("Trying again.")))
    stream.publish(Recorded(2, NOW, 1, finished))
    late, back = stream.subscribe(0, NOW), stream.subscribe(1, NOW)
    assert [item.event for item in await drain(late)] == [
        started,
        Notice("Trying again."),
        finished,
    ]
    assert [item.event for item in await drain(back)] == [finished]


async def test_of_long_output_a_late_watcher_gets_the_end() -> None:
    stream = TurnStream([], 1, "default")
    for number in range(100):
        stream.publish(live(ToolProgress("call", f"{number:04}" * 1000)))
    (got,) = await drain(stream.subscribe(0, NOW))
    assert isinstance(got.event, ToolProgress)
    assert len(got.event.text) == PROGRESS_KEPT_CHARS
    assert got.event.text.endswith("0099")


async def test_a_watcher_that_has_events_does_not_get_them_again() -> None:
    stream = TurnStream([], 1, "default")
    for sequence in (1, 2, 3):
        stream.publish(Recorded(sequence, NOW, 1, TextFinished(sequence, "", 0)))
    assert [item.sequence for item in await drain(stream.subscribe(2, NOW))] == [3]


async def test_deltas_that_wait_are_one_and_durable_events_are_never_merged() -> None:
    stream = TurnStream([], 1, "default")
    slow = stream.subscribe(0, NOW)
    for number in range(1000):
        stream.publish(live(TextDelta("x", 1, number)))
    stream.publish(Recorded(1, NOW, 1, TextFinished(1, "x" * 1000, 0)))
    stream.publish(Recorded(2, NOW, 1, TurnFinished(TurnOutcome.COMPLETED)))
    got = [item.event for item in await drain(slow)]
    assert got[0] == TextDelta("x" * 1000, 1, 0)
    assert len(got) == 3


async def test_output_that_nobody_takes_keeps_only_its_end() -> None:
    stream = TurnStream([], 1, "default")
    slow = stream.subscribe(0, NOW)
    for number in range(100):
        stream.publish(live(ToolProgress("call", f"{number:04}" * 1000)))
    (got,) = await drain(slow)
    assert isinstance(got.event, ToolProgress)
    assert len(got.event.text) == PROGRESS_KEPT_CHARS
    assert got.event.text.endswith("0099")


async def test_a_retried_call_starts_its_text_anew() -> None:
    stream = TurnStream([], 1, "default")
    stream.publish(live(TextDelta("wrong", 1, 0)))
    stream.void_partial(1)
    stream.publish(live(TextDelta("right", 1, 0)))
    assert stream.partial_text == "right"


async def test_who_takes_text_at_a_pace_does_not_wait_for_anything_else() -> None:
    stream = TurnStream([], 1, "default")
    subscription = stream.subscribe(0, NOW)
    stream.publish(live(TextDelta("Hello ", 1, 0)))
    async with aclosing(subscription.events(pause_s=3600)) as batches, asyncio.timeout(5):
        [first] = await anext(batches)
        assert first.event == TextDelta("Hello ", 1, 0)
        coming = asyncio.ensure_future(anext(batches))
        for index, text in enumerate(("the", "re")):
            stream.publish(live(TextDelta(text, 1, 6 + 3 * index)))
            await asyncio.sleep(0.01)
        assert not coming.done(), "text is merged meanwhile"
        finished = Recorded(1, NOW, 1, TextFinished(1, "Hello there", 0))
        stream.publish(finished)
        assert [item.event for item in await coming] == [TextDelta("there", 1, 6), finished.event]
