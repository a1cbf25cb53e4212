"""Homes as trees of files, to be compared byte for byte."""

import shutil
from collections.abc import Mapping
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "samples" / "home"
"""A home that was made by hand from the formats, with everything odd that they allow."""
SECRETS = {".env", "auth.json", "whatsapp/session/creds.json", "profiles/ann/.env"}
JOBS = ["0a1b2c3d4e5f", "1a1b2c3d4e5f", "3a1b2c3d4e5f"]
"""Those of its jobs that are taken, the last one paused."""


def tree(root: Path) -> Mapping[str, tuple[bytes, bool]]:
    """Every file by its path: what it holds, and whether it can be run."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in root.rglob("*")
        if path.is_file()
    }


def copy(folder: Path) -> Path:
    """A copy of the sample in a new folder, to be changed."""
    shutil.copytree(SAMPLE, folder)
    return folder
