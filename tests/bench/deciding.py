"""How long it takes to judge a command before it runs."""

import asyncio
import json
from math import ceil
from pathlib import Path
from time import thread_time

from agent_service.security.commands.classifier import CommandClassifier
from tests.bench.figures import Plan, Reading

_SPELLINGS = Path(__file__).parents[1] / "security" / "commands" / "spellings.jsonl"


async def command_classes(plan: Plan) -> list[Reading]:
    """Judge the commands of the tests, most of which are spelt to be hard to read."""
    return [await asyncio.to_thread(_measured, plan)]


def _measured(plan: Plan) -> Reading:
    commands = [json.loads(line)["command"] for line in _SPELLINGS.read_text().splitlines()]
    classifier = CommandClassifier()
    times: list[float] = []
    for _ in range(plan.repeats):
        for command in commands:
            # It only computes: what others do with the processor meanwhile is not its time.
            begun = thread_time()
            classifier.classify(command)
            times.append((thread_time() - begun) * 1000)
    times.sort()
    note = f"{len(times)}; p50 {times[len(times) // 2]:.2f}, longest {times[-1]:.1f} ms"
    return Reading("classify_cpu_ms_p99", round(times[ceil(len(times) * 0.99) - 1], 3), note)
