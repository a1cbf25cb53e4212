"""A tenth of the scheduler's bench: nothing is missing, twice or late while schedulers die."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.bench.scheduler.__main__ import FIGURES
from tests.postgres import require_postgres

TENTH = 1_000
BARS = {figure.key: figure.bar for figure in FIGURES if figure.bar is not None}


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_a_tenth_of_the_jobs_while_schedulers_are_killed(tmp_path: Path) -> None:
    require_postgres()
    file = tmp_path / "figures.json"
    command = ("-m", "tests.bench.scheduler", "--samples", str(TENTH), "--json", str(file))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    table = output.decode()
    assert process.returncode == 0, table
    figures = json.loads(await asyncio.to_thread(file.read_text))
    assert list(figures) == [figure.key for figure in FIGURES]
    assert figures["jobs"] == TENTH
    assert figures["kills"] >= 2
    missed = {key: figures[key] for key, bar in BARS.items() if not figures[key] <= bar}
    assert not missed, table
