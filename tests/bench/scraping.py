"""What Prometheus asks of a Hermes that has had many turns."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from statistics import median
from time import perf_counter

import httpx

from services.channels import Channels
from tests.bench.conversation import conversation
from tests.bench.figures import Plan, Reading
from tests.bench.hermes import hermes
from tests.bench.model_process import COMMAND, PLAIN, model_process
from tests.bench.sandboxes import release_all

_TURNS_PER_SAMPLE = 50
"""200 samples are 10,000 turns."""
_CONVERSATIONS = 8
_TURNS = 20
"""Of one session."""


async def after_turns(plan: Plan) -> list[Reading]:
    """Measure scrapes of all four services in one process, after turns in many sessions."""
    turns = plan.samples * _TURNS_PER_SAMPLE
    async with model_process() as url, hermes(plan.folder / "scraped", url) as running:
        left = iter(range(turns))
        texts = [COMMAND, *[PLAIN] * (_CONVERSATIONS - 1)]
        await asyncio.gather(*(_talk(running.channels, text, left) for text in texts))
        async with httpx.AsyncClient(trust_env=False) as client:
            took_ms: list[float] = []
            told = ""
            for _ in range(max(3, plan.samples // 10)):
                begun = perf_counter()
                told = (await client.get(running.started.metrics_url)).text
                took_ms.append((perf_counter() - begun) * 1_000)
    series = sum(1 for line in told.splitlines() if line and not line.startswith("#"))
    note = f"after {turns} turns, of the four services in one process"
    return [
        Reading(
            "scrape_ms_10000", round(median(took_ms), 1), f"{note}; longest {max(took_ms):.1f} ms"
        ),
        Reading("scrape_series_10000", series, note),
    ]


async def _talk(channels: Channels, text: str, left: Iterator[int]) -> None:
    """Have turns in one session after the other, as long as some are left."""
    while next(left, None) is not None:
        async with conversation(channels) as talk:
            await talk.ask(text)
            for _ in islice(left, _TURNS - 1):
                await talk.ask(text)
        if text is COMMAND:
            await release_all(channels)
