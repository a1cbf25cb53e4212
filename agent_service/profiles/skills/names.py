"""Rules for the names of skills and their files."""

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import chain, count

SUPPORT_FOLDERS = ("references", "templates", "scripts", "assets")
MAX_SUPPORT_BYTES = 1024 * 1024
DOCUMENT = "SKILL.md"
DESCRIPTION = "DESCRIPTION.md"
ARCHIVE = ".archive"

_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_ONE_OFF = re.compile(
    r"(?:^|-)(?:pr|pull|pull-request|issue|bug|ticket|gh|mr|cve)-?\d+(?:-|$)"
    r"|^(?:fix|fixes|fixed|fixing|hotfix|bugfix)(?:-|$)"
    # error messages
    r"|(?:^|-)[a-z]{3,}(?:error|exception)(?:-|$)|(?:^|-)traceback(?:-|$)|^error-\d"
    r"|^(?:cannot|could-not|failed-to|unable-to|no-such)-|-not-found$"
    # commits and dates
    r"|(?:^|-)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?:-|$)"
    r"|(?:^|-)(?:19|20)\d\d-?[01]\d(?:-?[0-3]\d)?(?:-|$)"
)


def is_one_off(name: str) -> bool:
    """Return whether a name describes one occasion, such as a pull request, not a kind of work."""
    return _ONE_OFF.search(name) is not None


def is_file_name(name: str) -> bool:
    """Return whether a file in a skill's folder may have this name."""
    return _FILE.fullmatch(name) is not None


def is_folder(path: str) -> bool:
    """Return whether a path has only visible folders and does not lead elsewhere."""
    return all(_FILE.fullmatch(part) for part in path.split("/"))


def support_file(path: str) -> str | None:
    """Return the normalized path of a support file; None if it is not one.

    Valid paths are a known folder and a file name: not deeper, and nothing hidden.
    """
    folder, slash, name = path.removeprefix("./").partition("/")
    if not slash or folder not in SUPPORT_FOLDERS or not _FILE.fullmatch(name):
        return None
    return f"{folder}/{name}"


def skill_folders(paths: Collection[str], *, hidden: bool = False) -> list[str]:
    """Return the folders with a SKILL.md that are not inside another such folder."""
    with_document = (each.removesuffix(f"/{DOCUMENT}") for each in paths)
    folders = {each for each in with_document if f"{each}/{DOCUMENT}" in paths}
    top = sorted(each for each in folders if folders.isdisjoint(_above(each)))
    return top if hidden else [each for each in top if "/." not in f"/{each}"]


def is_support(path: str, paths: Collection[str]) -> bool:
    """Return whether a file lies as deep in a skill's folder as its support files at most."""
    deeper = (each for each in _above(path) if path.removeprefix(each).count("/") > 2)
    return not any(f"{each}/{DOCUMENT}" in paths for each in deeper)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it."""
    return f"{path}/".startswith(f"{folder}/")


def _above(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def archive_folders(paths: Iterable[str]) -> set[str]:
    """Return the archive folders among these files."""
    return {path.split("/")[1] for path in paths if path.startswith(f"{ARCHIVE}/")}


def archive_place(taken: Iterable[str], name: str, now: datetime) -> str:
    """Return a free archive folder for a skill."""
    stamped, there = f"{name}-{now:%Y%m%d%H%M%S}", frozenset(taken)
    tries = chain((name, stamped), (f"{stamped}-{number}" for number in count(2)))
    return next(f"{ARCHIVE}/{each}" for each in tries if each not in there)
