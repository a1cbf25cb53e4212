"""How the `hermes` process ends, and how it treats Python's garbage collector."""

import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.process import ALL

_COMMAND = """
import atexit, sys
from services.cli.main import main
atexit.register(print, "taken apart")
main()
"""

_SERVICES = """
import asyncio, gc, sys
from services.cli.connection import connected
from services.cli.main import OBJECTS_WHILE_STARTING
from services.config import load_settings

async def main():
    settings = load_settings({"home": sys.argv[1], "metrics_port": 0}, {})
    settings.home.create()
    gc.set_threshold(OBJECTS_WHILE_STARTING)
    before = collections()
    async with connected(settings, sys.argv[2:]):
        print(collections() - before, gc.get_threshold()[0], gc.get_freeze_count())

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

asyncio.run(main())
"""


def collection(home: Path, *services: str) -> tuple[int, int, int]:
    """Return how often a start collects garbage, how many objects start a collection afterwards,
    and how many it leaves out.
    """
    command = [sys.executable, "-c", _SERVICES, str(home), *services]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    during, threshold, frozen = map(int, run.stdout.split())
    return during, threshold, frozen


def test_a_process_ends_when_its_output_is_out() -> None:
    command = [sys.executable, "-c", _COMMAND, "--help"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("usage: hermes")
    assert "taken apart" in run.stdout  # which is what argparse does, and no command

    run = subprocess.run([*command[:-1], "--version"], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("hermes ")
    assert "taken apart" not in run.stdout


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--profile", "ann", "memory", "show"), "say the command first, and --profile behind it"),
        (("memroy", "--json"), "there is no command 'memroy'"),
    ],
)
def test_a_line_without_a_command_is_told_what_it_lacks(typed: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-c", _COMMAND, *typed]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (2, f"hermes: {told}; see hermes --help\n")


def test_a_reader_that_has_enough_is_no_failure() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("services", [("scheduler",), ALL])
def test_services_collect_what_work_leaves_behind_and_not_what_their_start_has_made(
    tmp_path: Path, services: tuple[str, ...]
) -> None:
    during, threshold, frozen = collection(tmp_path, *services)
    assert during == 0
    assert threshold < 50_000
    assert frozen > 1_000
