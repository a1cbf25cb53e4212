"""Which folders of a machine may be bound as a workspace."""

import os
from pathlib import Path


def why_not(folder: Path, home: Path, user_home: Path) -> str:
    """Return what is wrong with a folder, links resolved, to follow "it may not be"; or empty."""
    folder, home, user_home = (Path(os.path.realpath(p)) for p in (folder, home, user_home))
    if folder == Path("/"):
        return "the whole file system"
    if folder == user_home:
        return "the home folder itself; choose a folder inside it"
    if folder.is_relative_to(home) or home.is_relative_to(folder):
        return f"inside or around {home}, which holds keys"
    return ""
