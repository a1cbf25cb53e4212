"""Where a home keeps its jobs, and whether another program runs them now."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

JOBS = "cron/jobs.json"
MARK = "cron/jobs.json.taken"
"""Says which database keeps the jobs of a home, by its path from there."""
DATABASE_ABOVE = "../../state/scheduler.db"
"""That of the home whose profile a home is."""
MAX_SCRIPT_BYTES = 64 * 1024
MAX_SCRIPTS_BYTES = 512 * 1024

_LOCKS = ("gateway*.lock", "*.gateway.lock", "cron/*.lock", "cron/.*.lock")


def jobs_file(root: Path) -> Path:
    """The file of a home's jobs."""
    return root / JOBS


def kept_by(root: Path) -> str:
    """The database that keeps a home's jobs, as the home's mark names it; empty without one."""
    try:
        return (root / MARK).read_text("utf-8").strip()
    except FileNotFoundError:
        return ""


def held_by(root: Path) -> str:
    """The lock file of a program that runs a home's jobs now; empty where none does."""
    for pattern in _LOCKS:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and _is_held(path):
                return path.name
    return ""


def scripts_of(root: Path) -> dict[str, str]:
    """The scripts of a home by their path in its folder `scripts`; links are not followed."""
    found: dict[str, str] = {}
    left = MAX_SCRIPTS_BYTES
    for path in _files(root / "scripts"):
        try:
            size = path.stat().st_size
            if size <= min(MAX_SCRIPT_BYTES, left):
                found[path.relative_to(root / "scripts").as_posix()] = path.read_text("utf-8")
                left -= size
        except (OSError, UnicodeDecodeError):
            continue  # a job that needs it is named
    return found


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def _is_held(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
