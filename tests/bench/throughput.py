"""Many conversations at the same time."""

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter

from tests.bench.conversation import Conversation, conversation
from tests.bench.figures import Plan, Reading
from tests.bench.hermes import hermes
from tests.bench.model_process import SLOW, model_process
from tests.bench.turns import PLAIN_TURNS

CONVERSATIONS = 64
_SECONDS_PER_SAMPLE = 0.05
"""200 samples make 10 seconds."""
_LEAD_S = 1.0
"""Before turns are counted, so that all conversations are in their stride."""


async def turns_per_second(plan: Plan) -> list[Reading]:
    """Measure how many turns end in a second when the model takes its time for each."""
    lasting_s = max(1.0, plan.samples * _SECONDS_PER_SAMPLE)
    async with (
        model_process() as url,
        hermes(plan.folder / "throughput", url) as running,
        AsyncExitStack() as stack,
    ):
        opening = [conversation(running.channels) for _ in range(CONVERSATIONS)]
        talks = [await stack.enter_async_context(opened) for opened in opening]
        await asyncio.gather(*(talk.chat(PLAIN_TURNS) for talk in talks))
        begin = perf_counter() + _LEAD_S
        counts = await asyncio.gather(*(_talk(talk, begin, begin + lasting_s) for talk in talks))
    note = f"in {lasting_s:g} s, {min(counts)} to {max(counts)} a conversation"
    return [Reading("turns_per_s_64", round(sum(counts) / lasting_s, 1), note)]


async def _talk(talk: Conversation, begin: float, end: float) -> int:
    """Talk until the end; returns how many turns ended in the time."""
    count = 0
    while True:
        await talk.ask(SLOW)
        now = perf_counter()
        if now >= end:
            return count
        count += now >= begin
