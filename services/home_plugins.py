"""What a home has of others that is kept, and never run: memory providers in `plugins/memory`."""

from collections.abc import Sequence
from pathlib import Path

FOLDER = "plugins/memory"


def memory_providers(root: Path) -> Sequence[str]:
    """The names of those in a home; what is no folder is none."""
    folder = root / FOLDER
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError:
        return ()


def told_of(names: Sequence[str]) -> str:
    """What a person is to know of them."""
    return (
        f"{', '.join(names)} in {FOLDER} is kept as it is and not loaded: Hermes runs no memory "
        "providers of others, and remembers in its own files"
    )
