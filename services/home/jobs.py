"""Where a home keeps its jobs, and whether another program runs them now."""

from collections.abc import Iterator
from pathlib import Path

from services.home.file_lock import FileLock
from services.home.texts import decode_text

JOBS = "cron/jobs.json"
MARK = "cron/jobs.json.taken"
"""Names the database that keeps the jobs of a home, by its path from there."""
DATABASE_ABOVE = "../../state/scheduler.db"
"""The database of the home above a profile's home."""
MAX_SCRIPT_BYTES = 64 * 1024
MAX_SCRIPTS_BYTES = 512 * 1024

_LOCKS = ("gateway*.lock", "*.gateway.lock", "cron/*.lock", "cron/.*.lock")


def jobs_file(root: Path) -> Path:
    """Return the job file of a home."""
    return root / JOBS


def kept_by(root: Path) -> str:
    """Return the database named by a home's mark; empty without one."""
    try:
        return (root / MARK).read_text("utf-8").strip()
    except FileNotFoundError:
        return ""


def held_by(root: Path) -> str:
    """Return the lock file of a program that runs a home's jobs now; empty if there is none."""
    for pattern in _LOCKS:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and FileLock(path).is_held():
                return path.name
    return ""


def scripts_of(root: Path) -> dict[str, str]:
    """Return the scripts of a home by their path in `scripts`; links are not followed."""
    found: dict[str, str] = {}
    left = MAX_SCRIPTS_BYTES
    for path in _files(root / "scripts"):
        try:
            size = path.stat().st_size
            if size <= min(MAX_SCRIPT_BYTES, left):
                name = path.relative_to(root / "scripts").as_posix()
                found[name] = decode_text(path.read_bytes())
                left -= size
        except (OSError, UnicodeDecodeError):
            continue  # a job that needs it is reported
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
