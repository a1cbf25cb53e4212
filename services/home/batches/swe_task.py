"""Tasks of software engineering: a repository to change, and tests that score the change."""

import hashlib
import os
import subprocess
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from services.errors import InvalidArgument
from services.home.batches.dataset import MAX_FILE_BYTES, MAX_SCRIPT_BYTES, DatasetItem, Tags
from services.home.paths import expand
from services.validation import decode

FOLDER = "repository"
_GIT_S = 300
_AUTO_RUN = ("conftest.py", "sitecustomize.py", "usercustomize.py")
"""Files that Python's tests run unasked."""
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
_COMMIT = "refs/task"
"""The task's commit in a fetched repository."""
_EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, which git knows."""
_START = "git -c user.name=task -c user.email=task@localhost commit --quiet --message start"


class SweTask(Struct, frozen=True, forbid_unknown_fields=True):
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
    test_patch: str = ""
    """A diff with more tests, which the model does not see; its files are restored, too."""
    setup: str = ""
    test_timeout_s: int = 60
    tags: Tags = ()


def parse_task(line: bytes, folder: Path) -> SweTask:
    """Return the task of a line; a relative path of its repository begins in the folder."""
    task = decode(line, SweTask)
    if task.test_timeout_s < 1:
        raise InvalidArgument("test_timeout_s must be at least 1")
    beside = folder / expand(task.repository)
    return replace(task, repository=str(beside)) if beside.is_dir() else task


def task_item(task: SweTask, folder: Path) -> DatasetItem:
    """Return the item of a batch, and write its files into a folder.

    Raises InvalidArgument if the repository cannot be read.
    """
    if not task.tests:
        raise InvalidArgument("there are no tests")
    with _fetched(task) as repository:
        tested = _patched(repository, task.test_patch) if task.test_patch else _COMMIT
        roots = dict.fromkeys((*task.restore, *_changed(repository, _COMMIT, tested)))
        names = [f":(glob)**/{name}" for name in _AUTO_RUN]
        names += [f":(literal){root}" for root in roots]
        trusted = _changed(repository, _EMPTY, tested, *names)
        whole = _pack(repository, folder, _COMMIT, "repository")
        tests = _pack(repository, folder, tested, "tests", *trusted) if trusted else ()
    item = DatasetItem(
        f"{task.prompt}\n\nThe repository is in /workspace/{FOLDER}.",
        task.id,
        setup=_setup(task, whole),
        check=_check(task, roots, tests),
        tags=task.tags,
        setup_files=whole,
        check_files=tests,
    )
    if max(len(script.encode()) for script in (item.setup, item.check)) > MAX_SCRIPT_BYTES:
        raise InvalidArgument(
            f"the setup, or tests and paths in restore, have over {MAX_SCRIPT_BYTES:,} bytes"
        )
    return item


@contextmanager
def _fetched(task: SweTask) -> Generator[Path]:
    """Yield a repository with the task's commit, for the time of the block."""
    source = expand(task.repository)
    with TemporaryDirectory() as made:
        folder = Path(made)
        _git(folder, "init", "--quiet", "--bare", "--template=")
        # Archives have every file, whatever the repository says of its releases.
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_text("* !export-ignore !export-subst\n")
        if source.is_dir():
            where = "--path-format=absolute", "--git-path", "objects"
            objects = _git(source, "rev-parse", *where)
            (folder / "objects" / "info" / "alternates").write_bytes(objects)
            wanted = "--max-count=1", "--end-of-options", task.commit, "--"
            commit = _git(source, "rev-list", *wanted).decode().strip()
            _git(folder, "update-ref", _COMMIT, commit)
        else:
            refs = f"{task.commit}:{_COMMIT}"
            _git(folder, "fetch", "--quiet", "--depth=1", "--", task.repository, refs)
        yield folder


def _patched(repository: Path, patch: str) -> str:
    """Return a commit with the files of the task's commit after a patch."""
    _git(repository, "read-tree", _COMMIT)
    _git(repository, "apply", "--cached", "-", given=patch.encode())
    tree = _git(repository, "write-tree").decode().strip()
    who = "task <task@localhost> 0 +0000"
    # Archives of trees have the time of day in them, and those of commits the commit's.
    commit = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n".encode()
    made = _git(repository, "hash-object", "-t", "commit", "-w", "--stdin", given=commit)
    return made.decode().strip()


def _changed(repository: Path, before: str, after: str, *names: str) -> Sequence[str]:
    """Return the paths of files that differ between two trees."""
    trees = "--no-renames", before, after, "--", *names
    listed = _git(repository, "diff", "-z", "--name-only", *trees)
    return os.fsdecode(listed).split("\0")[:-1]


def _git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        ran = subprocess.run(command, input=given, capture_output=True, check=False, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(f"git {arguments[0]}: {error}") from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace").strip()
        raise InvalidArgument(f"git {arguments[0]}: {said}")
    return ran.stdout


def _pack(repository: Path, folder: Path, commit: str, name: str, *paths: str) -> tuple[str, ...]:
    """Write an archive in parts that fit into files of items; return their paths in the folder.

    A path is the digest of the part and its name.
    """
    archive, parts = repository / f"{name}.tar.gz", list[str]()
    _git(repository, "archive", "--format=tar.gz", f"--output={archive}", commit, "--", *paths)
    with archive.open("rb") as file:
        while part := file.read(MAX_FILE_BYTES):
            parts.append(f"{hashlib.sha256(part).hexdigest()}/{name}.{len(parts)}")
            (folder / parts[-1]).parent.mkdir(exist_ok=True)
            (folder / parts[-1]).write_bytes(part)
    return tuple(parts)


def _setup(task: SweTask, archive: Sequence[str]) -> str:
    """Return the script that makes the repository, without the commits that come later."""
    lines = ["set -e", f"mkdir {FOLDER}", f"cd {FOLDER}", *_unpack(archive), "rm -r ../uploads"]
    # What a repository has committed and ignores is committed here, too.
    lines += ["git init --quiet", "git add --all --force", _START, task.setup]
    return "\n".join(lines)


def _check(task: SweTask, roots: Iterable[str], archive: Sequence[str]) -> str:
    """Return the script that restores the tests, runs them and prints the part that passes.

    If it cannot restore them, it fails, which scores 0.
    """
    names = " -o ".join(f"-name {name}" for name in _AUTO_RUN)
    lines = [
        "set -e",
        f"export {_PATH}",
        f"cd {FOLDER}",
        "chmod -R u+rwX .",
        f"find . \\( {names} \\) -delete",
        f"rm -rf -- {' '.join(map(quote, roots))}",
        *_unpack(archive),
        "set +e",
        "passed=0",
        "run() {",
        f"  timeout --kill-after=5 {task.test_timeout_s} env -i {_PATH} HOME=/tmp LANG=C.UTF-8 \\",
        '    sh -c "$1" </dev/null >/dev/null 2>&1 && passed=$((passed + 1))',
        "}",
        *(f"run {quote(test)}" for test in task.tests),
        f"awk -v passed=$passed 'BEGIN {{ printf \"%.4f\\n\", passed / {len(task.tests)} }}'",
    ]
    return "\n".join(lines)


def _unpack(archive: Sequence[str]) -> Sequence[str]:
    """Return the lines that unpack what is in `uploads`, if it is what was packed."""
    if not archive:
        return ()
    parts = [part.split("/") for part in archive]
    sums = [f"{digest}  ../uploads/{name}" for digest, name in parts]
    paths = " ".join(f"../uploads/{name}" for _, name in parts)
    return "sha256sum -c >&2 <<'END_OF_SUMS'", *sums, "END_OF_SUMS", f"cat {paths} | tar -xz"
