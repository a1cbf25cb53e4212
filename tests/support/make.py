"""The Makefile, as a person in a checkout uses it, with what this environment has installed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.markdown import ROOT


def make(*words: str, folder: Path = ROOT) -> Sequence[str]:
    """The command that makes something of what a folder has."""
    installed = ("install", ".venv/.installed-test", ".venv/.installed-all")
    taken = (f"--assume-old={each}" for each in installed)
    where = (f"--directory={folder}", f"--file={ROOT / 'Makefile'}")
    return ("make", *where, f"BIN={Path(sys.executable).parent}", *taken, *words)


def run_make(*words: str, folder: Path = ROOT) -> str:
    """What is said when something is made, which must succeed."""
    made = subprocess.run(
        make(*words, folder=folder), check=False, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, f"{made.stdout}{made.stderr}"[-4000:]
    return made.stdout
