"""Hermes for hours at a turn a second: do its memory and its descriptors stay as they are?

    python -m tests.bench.soak                 a day, which is what `make soak` does
    python -m tests.bench.soak --minutes 10    what continuous integration does
    python -m tests.bench.soak --json FILE     writes the figures as well

A turn begins each second in one of several conversations. Each of these ends after some turns and
makes room for one in a new session; one of them runs commands. What is measured once caches are
warm is compared with what is measured at the end; the exit status is 1 where a bar is missed, and
75 where nothing but turns were missed: the machine was held up, and another try may tell more.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from time import monotonic

from msgspec import Struct, structs

from services.rpc.channels import Channels
from tests.bench.conversation import conversation
from tests.bench.hermes import Hermes, hermes
from tests.bench.model_process import COMMAND, PLAIN, model_process
from tests.bench.report import say
from tests.bench.sandboxes import release_all
from tests.bench.startup import descriptors, memory_mb

DAY_MINUTES = 24 * 60
MOST_GROWTH = 0.05
MOST_MORE_DESCRIPTORS = 2.5
"""On average: connections and sandboxes come and go; 1.6 were seen beside a whole run of tests."""
LEAST_RATE = 0.9
"""Of the turns that are due; with fewer it was another load that was measured."""
CONVERSATIONS = 8
TURNS = 20
"""Of one conversation."""
SAMPLE_S = 5.0
TELL_S = 600.0
WARMING = 0.3
"""The part of the time that is not compared."""
LONGEST_WARMING_S = 3600.0
COMPARED = 0.2
"""The parts of the rest, at its beginning and at its end, that are compared."""


class Sample(Struct, frozen=True):
    """What Hermes takes at one moment."""

    at_s: float
    memory_mb: float
    descriptors: int


class Figures(Struct, frozen=True):
    """What came of it."""

    minutes: float
    turns: int
    turns_due: int
    memory_first_mb: float
    memory_last_mb: float
    growth: float
    """Of the memory (PSS), as a part of what it was."""
    descriptors_first: float
    descriptors_last: float

    @classmethod
    def of(cls, samples: Sequence[Sample], turns: int, due: int) -> "Figures":
        """From the samples of the whole time."""
        whole_s = samples[-1].at_s
        warm_s = min(WARMING * whole_s, LONGEST_WARMING_S)
        width_s = COMPARED * (whole_s - warm_s)
        first = [one for one in samples if warm_s <= one.at_s <= warm_s + width_s]
        last = [one for one in samples if one.at_s >= whole_s - width_s]
        before, after = (fmean(one.memory_mb for one in part) for part in (first, last))
        opened, open_last = (fmean(one.descriptors for one in part) for part in (first, last))
        return cls(
            minutes=round(whole_s / 60, 1),
            turns=turns,
            turns_due=due,
            memory_first_mb=round(before, 1),
            memory_last_mb=round(after, 1),
            growth=round(after / before - 1, 4),
            descriptors_first=round(opened, 1),
            descriptors_last=round(open_last, 1),
        )

    @property
    def grown(self) -> list[str]:
        """The bars that were not reached of what is to stay as it is."""
        bars = {
            f"memory grew by {self.growth:.1%}": self.growth >= MOST_GROWTH,
            f"descriptors went from {self.descriptors_first} to {self.descriptors_last}": (
                self.descriptors_last - self.descriptors_first > MOST_MORE_DESCRIPTORS
            ),
        }
        return [what for what, is_missed in bars.items() if is_missed]

    @property
    def missed(self) -> list[str]:
        """The bars that were not reached."""
        lacks = self.turns < LEAST_RATE * self.turns_due
        return self.grown + [f"{self.turns} of {self.turns_due} turns were had"] * lacks

    @property
    def status(self) -> int:
        """The exit status; only that of too few turns says that it may be tried again."""
        if self.grown:
            return 1
        return os.EX_TEMPFAIL if self.missed else os.EX_OK


class Load:
    """A turn a second, in several conversations."""

    def __init__(self, channels: Channels) -> None:
        self.turns = self.due = 0
        self._channels = channels
        self._ticks: asyncio.Queue[None] = asyncio.Queue(CONVERSATIONS)

    async def run(self, seconds: float) -> None:
        """Have turns for so long."""
        talking = [asyncio.create_task(self._talk(COMMAND))]
        talking += [asyncio.create_task(self._talk(PLAIN)) for _ in range(CONVERSATIONS - 1)]
        ticking = asyncio.create_task(self._tick(seconds))
        try:
            done, _ = await asyncio.wait([ticking, *talking], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (ticking, *talking):
                task.cancel()
            await asyncio.gather(ticking, *talking, return_exceptions=True)

    async def _tick(self, seconds: float) -> None:
        begun = monotonic()
        while (now := monotonic() - begun) < seconds:
            if self.due <= now:
                self.due += 1
                if not self._ticks.full():
                    self._ticks.put_nowait(None)
            await asyncio.sleep(max(0.0, self.due - (monotonic() - begun)))

    async def _talk(self, text: str) -> None:
        while True:
            async with conversation(self._channels) as talk:
                for _ in range(TURNS):
                    await self._ticks.get()
                    await talk.ask(text)
                    self.turns += 1
            if text is COMMAND:
                await release_all(self._channels)


async def soak(folder: Path, seconds: float) -> Figures:
    """Run Hermes under the load for so long."""
    samples: list[Sample] = []
    async with model_process() as url, hermes(folder / "home", url) as running:
        load = Load(running.channels)
        watching = asyncio.create_task(_watch(running, samples))
        try:
            await load.run(seconds)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return Figures.of(samples, load.turns, load.due)


async def _watch(running: Hermes, samples: list[Sample]) -> None:
    pid, begun, told_s = running.started.pid, monotonic(), 0.0
    while True:
        at_s = monotonic() - begun
        memory, opened = await memory_mb(pid), await descriptors(pid)
        samples.append(Sample(round(at_s, 1), round(memory, 2), opened))
        if at_s - told_s >= TELL_S:
            told_s = at_s
            say(f"after {at_s / 60:.0f} minutes: {memory:.1f} MB, {opened} descriptors")
        await asyncio.sleep(SAMPLE_S)


def main() -> int:
    """Soak for as long as the arguments say; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=DAY_MINUTES, help="how long (a day)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hermes-soak-") as folder:
        figures = asyncio.run(soak(Path(folder), arguments.minutes * 60))
    for name, value in structs.asdict(figures).items():
        say(f"{name:<20} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(structs.asdict(figures)) + "\n", encoding="utf-8")
    for what in figures.missed:
        say(f"missed: {what}")
    return figures.status


if __name__ == "__main__":
    sys.exit(main())
