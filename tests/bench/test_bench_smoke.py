"""The bench runs, and measures everything that this machine can."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.bench.figures import FIGURES, Figure, Spread
from tests.support.requirements import require

DOCKER = {"exec_docker_ms", "acquire_warm_ms", "acquire_cold_ms"}
DIFFERENCES = {"first_token_added_ms", "http_first_token_added_ms"}
"""Of two samples, so that one may be less than the other."""
BUBBLEWRAP = {"exec_bubblewrap_ms", "mcp_call_ms"}


@pytest.mark.slow
@pytest.mark.timeout(900)  # two minutes of work, however many share the machine
async def test_the_bench_measures_every_figure(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = (sys.executable, "-m", "tests.bench", "--samples", "1", "--json", str(file))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    table = output.decode()
    assert process.returncode == 0, table
    figures = json.loads(await asyncio.to_thread(file.read_text))
    assert list(figures) == [figure.key for figure in FIGURES]
    for key, value in figures.items():
        assert key in table
        if key.endswith("_ms") and value is not None:
            assert value["p50"] <= value["p95"], key
            assert key in DIFFERENCES or value["p50"] > 0, key
        elif value is not None:
            assert value > 0, key
    missing = {key for key, value in figures.items() if value is None}
    assert missing <= DOCKER | BUBBLEWRAP, table
    require("docker", not missing & DOCKER, "its figures were not measured")
    require("bubblewrap", not missing & BUBBLEWRAP, "its figure was not measured")


def test_a_bar_is_met_or_missed() -> None:
    at_most, at_least = Figure("a_ms", "", 10), Figure("b", "", 110, at_least=True)
    assert at_most.met(Spread(9.9, 40.0)) is True
    assert at_most.met(Spread(10.1, 10.1)) is False
    assert at_least.met(111.0) is True
    assert at_least.met(109.0) is False
    assert at_least.met(None) is None
    assert Figure("c", "").met(1.0) is None
    both = Figure("d_ms", "", 3, slow_bar=10)
    assert both.met(Spread(3.0, 10.0)) is True
    assert both.met(Spread(3.0, 10.1)) is False


def test_a_spread_is_the_middle_and_the_slow_end() -> None:
    assert Spread.of([float(number) for number in range(1, 102)]) == Spread(51.0, 96.0)
    assert Spread.of([7.0]) == Spread(7.0, 7.0)
