"""What the files of a skill may be called, and which names no skill should have."""

import re
from collections.abc import Iterable
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
    # the text of an error
    r"|(?:^|-)[a-z]{3,}(?:error|exception)(?:-|$)|(?:^|-)traceback(?:-|$)|^error-\d"
    r"|^(?:cannot|could-not|failed-to|unable-to|no-such)-|-not-found$"
    # a commit, a day
    r"|(?:^|-)(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?:-|$)"
    r"|(?:^|-)(?:19|20)\d\d-?[01]\d(?:-?[0-3]\d)?(?:-|$)"
)


def is_one_off(name: str) -> bool:
    """Whether a name tells of one occasion, such as a pull request, not of a class of work."""
    return _ONE_OFF.search(name) is not None


def is_file_name(name: str) -> bool:
    """Whether a file directly in a skill's folder may be called this."""
    return _FILE.fullmatch(name) is not None


def is_folder(path: str) -> bool:
    """Whether it is a path of folders, none of them hidden, that leads nowhere else."""
    return all(_FILE.fullmatch(part) for part in path.split("/"))


def support_file(path: str) -> str | None:
    """The path of a support file in the form that is used everywhere; None when it is none.

    It is one of the known folders and a file name: nothing deeper, nothing hidden, no way out.
    """
    folder, slash, name = path.removeprefix("./").partition("/")
    if not slash or folder not in SUPPORT_FOLDERS or not _FILE.fullmatch(name):
        return None
    return f"{folder}/{name}"


def archive_folders(paths: Iterable[str]) -> set[str]:
    """The folders of the archive of a library with these files."""
    return {path.split("/")[1] for path in paths if path.startswith(f"{ARCHIVE}/")}


def archive_place(taken: Iterable[str], name: str, now: datetime) -> str:
    """Where a skill is put away that has to leave these folders of the archive alone."""
    stamped, there = f"{name}-{now:%Y%m%d%H%M%S}", frozenset(taken)
    tries = chain((name, stamped), (f"{stamped}-{number}" for number in count(2)))
    return next(f"{ARCHIVE}/{each}" for each in tries if each not in there)
