import subprocess
import sys

from services.cli.main import YOUNG_OBJECTS

_SHOW_COLLECTOR = """
import gc
from services.cli.main import main
status = main(["--version"])
print(status, gc.get_threshold()[0], gc.get_freeze_count() > 1000)
"""


def test_a_command_spends_no_time_on_collecting_what_stays() -> None:
    command = [sys.executable, "-c", _SHOW_COLLECTOR]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[1:] == [f"0 {YOUNG_OBJECTS} True"]
