"""An ordinary user for tests: whoever runs them, and where that is root somebody else."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.requirements import require

UID = os.geteuid() or 1000


def python_for_everybody() -> str:
    """A Python like ours that users can run who cannot enter our folders; empty without one."""
    name = f"python3.{sys.version_info.minor}"
    return shutil.which(name, path="/usr/bin:/usr/local/bin") or ""


def users_python() -> str:
    """The Python for the ordinary user: ours, unless that is another user."""
    if os.geteuid() != 0:
        return sys.executable
    root = Path(__file__).parents[2]
    # Python lists the folders that it imports from.
    open_to_all = root.stat().st_mode & 0o004 and all(
        folder.stat().st_mode & 0o001 for folder in (root, *root.parents)
    )
    require("open-folder", bool(open_to_all), "other users cannot read the folder of this clone")
    python = python_for_everybody()
    require("system-python", bool(python), "no Python like ours in /usr that all users can run")
    return python


@contextmanager
def users_folder() -> Generator[Path]:
    """A folder of the ordinary user, where that user can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-", dir="/tmp"))
    os.chown(folder, UID, -1 if os.geteuid() else UID)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
