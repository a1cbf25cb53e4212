"""Tasks of software engineering: a repository to change, and tests that score the change."""

import subprocess
from base64 import encodebytes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from gzip import compress
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from services.errors import InvalidArgument
from services.home.batches.dataset import MAX_SCRIPT_BYTES, DatasetItem, Tags
from services.validation import decode

FOLDER = "repository"
_GIT_S = 300
_AUTO_RUN = ("conftest.py", "sitecustomize.py", "usercustomize.py")
"""Files that Python's tests run unasked."""
_ENVIRONMENT = "PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8"
_COMMIT = "refs/task"
"""The task's commit in a fetched repository."""
_START = "git -c user.name=task -c user.email=task@localhost commit --quiet --message start"


class SweTask(Struct, frozen=True):
    """A line of a file of tasks."""

    id: str
    repository: str
    """A folder, which may be relative to the file of tasks, or a URL."""
    commit: str
    prompt: str
    tests: Sequence[str]
    """Shell commands; each that exits with 0 counts alike."""
    restore: Sequence[str] = ("tests",)
    """Paths that get the commit's contents back before the tests run."""
    setup: str = ""
    test_timeout_s: int = 60
    tags: Tags = ()


def parse_task(line: bytes, folder: Path) -> SweTask:
    """Return the task of a line; a relative path of its repository begins in the folder."""
    task = decode(line, SweTask)
    beside = folder / Path(task.repository).expanduser()
    return replace(task, repository=str(beside)) if beside.is_dir() else task


def task_item(task: SweTask) -> DatasetItem:
    """Return the item of a batch; raises InvalidArgument where the repository cannot be read."""
    if not task.tests:
        raise InvalidArgument(f"task {task.id} has no tests")
    with _fetched(task) as folder:
        listing = _git(folder, "ls-tree", "-r", "-z", "--name-only", _COMMIT).decode()
        whole = _git(folder, "archive", _COMMIT)
        trusted = [path for path in listing.split("\0") if path and _is_trusted(task, path)]
        tests = _git(folder, "archive", _COMMIT, "--", *trusted) if trusted else b""
    setup = f"{_begin(task, whole)}\n{task.setup}"
    check = _check(task, tests)
    for name, script, hint in (
        ("setup", setup, "give a URL as repository"),
        ("check", check, "name fewer paths in restore"),
    ):
        if len(script.encode()) > MAX_SCRIPT_BYTES:
            raise InvalidArgument(
                f"task {task.id}: its {name} has {len(script):,} bytes with the files of the"
                f" repository; at most {MAX_SCRIPT_BYTES:,} are possible; {hint}"
            )
    prompt = f"{task.prompt}\n\nThe repository is in /workspace/{FOLDER}."
    return DatasetItem(prompt, task.id, setup=setup, check=check, tags=task.tags)


def _is_trusted(task: SweTask, path: str) -> bool:
    inside = (path == root or path.startswith(f"{root.rstrip('/')}/") for root in task.restore)
    return any(inside) or path.rpartition("/")[2] in _AUTO_RUN


@contextmanager
def _fetched(task: SweTask) -> Generator[Path]:
    """Yield a repository with the task's commit, for the time of the block."""
    source = _folder(task)
    with TemporaryDirectory() as made:
        folder = Path(made)
        _git(folder, "init", "--quiet", "--bare", "--template=")
        # Archives have every file, whatever the repository says of its releases.
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_text("* !export-ignore !export-subst\n")
        if source is None:
            refs = f"{task.commit}:{_COMMIT}"
            _git(folder, "fetch", "--quiet", "--depth=1", "--", task.repository, refs)
        else:
            where = "--path-format=absolute", "--git-path", "objects"
            objects = _git(source, "rev-parse", *where)
            (folder / "objects" / "info" / "alternates").write_bytes(objects)
            wanted = "--max-count=1", "--end-of-options", task.commit, "--"
            commit = _git(source, "rev-list", *wanted).decode().strip()
            _git(folder, "update-ref", _COMMIT, commit)
        yield folder


def _folder(task: SweTask) -> Path | None:
    """Return a repository's folder; None if it is at a URL."""
    path = Path(task.repository).expanduser()
    return path if path.is_dir() else None


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        ran = subprocess.run(command, capture_output=True, check=False, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(f"git {arguments[0]}: {error}") from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        raise InvalidArgument(f"git {arguments[0]}: {said}")
    return ran.stdout


def _begin(task: SweTask, archive: bytes) -> str:
    """Return the script that makes the repository, without the commits that come later."""
    unpacked = _unpack(archive)
    lines = ["set -e", f"mkdir {FOLDER}", f"cd {FOLDER}", "git init --quiet"]
    if len(unpacked) + len(task.setup) < MAX_SCRIPT_BYTES or _folder(task):
        lines += [unpacked, "git add --all", _START]
    else:
        source = f"{quote(task.repository)} {quote(task.commit)}"
        lines += [f"git fetch --quiet --depth=1 {source}", "git checkout --quiet FETCH_HEAD"]
    return "\n".join(lines)


def _check(task: SweTask, archive: bytes) -> str:
    """Return the script that restores the tests, runs them and prints the part that passes."""
    names = " -o ".join(f"-name {name}" for name in _AUTO_RUN)
    removed = " ".join(quote(path) for path in task.restore)
    lines = [
        f"cd {FOLDER} || {{ echo 0; exit; }}",
        f"find . \\( {names} \\) -delete 2>/dev/null",
        f"rm -rf -- {removed}",
        *([_unpack(archive)] if archive else []),
        "passed=0",
        "run() {",
        f"  timeout --kill-after=5 {task.test_timeout_s} env -i {_ENVIRONMENT} \\",
        '    sh -c "$1" </dev/null >/dev/null 2>&1 && passed=$((passed + 1))',
        "}",
        *(f"run {quote(test)}" for test in task.tests),
        f"awk -v passed=$passed 'BEGIN {{ printf \"%.4f\\n\", passed / {len(task.tests)} }}'",
    ]
    return "\n".join(lines)


def _unpack(archive: bytes) -> str:
    text = encodebytes(compress(archive, mtime=0)).decode()
    return f"base64 --decode <<'END_OF_FILES' | tar --extract --gzip\n{text}END_OF_FILES"
