"""Many conversations at the same time."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from time import perf_counter

from tests.bench.conversation import Conversation, conversation
from tests.bench.figures import Plan, Reading
from tests.bench.hermes import Hermes, hermes
from tests.bench.model_process import SLOW, SLOW_COMMAND, model_process
from tests.bench.sandboxes import release_all
from tests.bench.turns import PLAIN_TURNS

CONVERSATIONS = 64
_SECONDS_PER_SAMPLE = 0.05
"""200 samples make 10 seconds."""
_LEAD_S = 1.0
"""Before turns are counted, so that all conversations are in their stride."""


async def plain(plan: Plan) -> list[Reading]:
    """Measure how many turns end in a second when the model takes its time for each."""
    async with model_process() as url, hermes(plan.folder / "throughput", url) as running:
        return [await _measure(plan, "turns_per_s_64", running, SLOW)]


async def with_commands(plan: Plan) -> list[Reading]:
    """Measure the same with a command in each turn, in sandboxes that had one before."""
    room = {"HERMES_MAX_SANDBOXES": str(CONVERSATIONS + 1)}
    async with model_process() as url, hermes(plan.folder / "boxes", url, **room) as running:
        reading = await _measure(plan, "command_turns_per_s_64", running, SLOW_COMMAND)
        used = ", ".join(sorted(await release_all(running.channels)))
    return [replace(reading, note=f"{reading.note}, in {used}")]


async def _measure(plan: Plan, key: str, running: Hermes, text: str) -> Reading:
    lasting_s = max(1.0, plan.samples * _SECONDS_PER_SAMPLE)
    async with AsyncExitStack() as stack:
        number = min(CONVERSATIONS, plan.samples)
        opening = [conversation(running.channels) for _ in range(number)]
        talks = [await stack.enter_async_context(opened) for opened in opening]
        await asyncio.gather(*(talk.chat(PLAIN_TURNS - 1) for talk in talks))
        await asyncio.gather(*(talk.ask(text) for talk in talks))
        begin = perf_counter() + _LEAD_S
        end = begin + lasting_s
        counts = await asyncio.gather(*(_talk(talk, text, begin, end) for talk in talks))
    note = f"in {lasting_s:g} s, {min(counts)} to {max(counts)} in each of {number}"
    return Reading(key, round(sum(counts) / lasting_s, 1), note)


async def _talk(talk: Conversation, text: str, begin: float, end: float) -> int:
    """Talk until the end; returns how many turns ended in the time."""
    count = 0
    while True:
        await talk.ask(text)
        now = perf_counter()
        if now >= end:
            return count
        count += now >= begin
