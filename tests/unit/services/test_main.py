"""How the `hermes` process treats Python's garbage collector."""

import subprocess
import sys
from pathlib import Path

_SHORT_COMMAND = """
import gc
from services.cli.main import main
main(["--version"])
print(gc.get_threshold()[0] > 180_000, gc.get_freeze_count() > 1_000)
"""

_SERVICES = """
import asyncio, gc, sys
from services.cli import collector
from services.cli.connection import connected
from services.config import load_settings

async def main():
    settings = load_settings({"home": sys.argv[1]}, {})
    settings.home.create()
    collector.starting()
    async with connected(settings, ("agent",)):
        print(gc.get_threshold()[0] < 50_000, gc.get_freeze_count() > 1_000)

asyncio.run(main())
"""


def shown(script: str, *arguments: str) -> str:
    """Return the last line that a script prints in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return run.stdout.splitlines()[-1]


def test_a_command_spends_no_time_on_collecting_what_stays() -> None:
    assert shown(_SHORT_COMMAND) == "True True"


def test_services_collect_what_work_leaves_behind(tmp_path: Path) -> None:
    assert shown(_SERVICES, str(tmp_path)) == "True True"
