"""Workspaces that are folders of a machine, managed by a program that runs there.

The program is `executor_service.supervisor.folders`. Locally it is a separate process, which can be
killed at any time and does not block the executor.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from executor_service.backends.base import Size
from executor_service.backends.keeper import read_answer
from executor_service.backends.supervisor_zipapp import PROGRAM, install_supervisor
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    WorkspaceInUse,
    WorkspaceRefused,
)
from executor_service.supervisor.folders import ANSWER
from executor_service.supervisor.trees import PART, remove_empty
from services.errors import Reason
from services.lifecycle import unbroken

Run = Callable[[dict[str, Any]], Awaitable[bytes]]
"""Runs the program with this request plus `root`, and returns its output; or BackendError."""

HERE = "here"
_LIMITS = frozenset({"TOO_LARGE", "TOO_DEEP", "NO_SPACE"})
_MAX_SHOWN_CHARACTERS = 500
_LOOK_DEADLINE_S = 60
_WORK_DEADLINE_S = 1800


class FolderStore:
    """The workspaces in one folder of some machine."""

    def __init__(self, place: str, run: Run) -> None:
        self.place = place
        """Names the machine and the folder."""
        self._run = run

    async def present(self, folder: Path) -> list[Path]:
        answer = await self._ask(_LOOK_DEADLINE_S, do="list")
        return [folder / name for name in answer["names"]]

    async def measure(self, most_bytes: Mapping[Path, int]) -> Mapping[Path, Size]:
        """Measures blocks on disk, plus a fixed size for each entry."""
        answer = await self._ask(_WORK_DEADLINE_S, do="measure", most_bytes=by_name(most_bytes))
        return read_sizes(answer, most_bytes)

    async def copy(self, source: Path, target: Path, most_bytes: int) -> int:
        """Copies, with shared blocks if the file system supports it."""
        names = {"name": source.name, "target": target.name}
        answer = await self._ask(_WORK_DEADLINE_S, do="copy", **names, most_bytes=most_bytes)
        return int(answer["bytes"])

    async def remove(self, workspace: Path) -> None:
        await self._ask(_WORK_DEADLINE_S, do="remove", name=workspace.name)

    async def remove_empty(self, workspaces: Sequence[Path]) -> list[Path]:
        names = [workspace.name for workspace in workspaces]
        answer = await self._ask(_LOOK_DEADLINE_S, do="remove_empty", names=names)
        return [workspace for workspace in workspaces if workspace.name in answer["gone"]]

    async def _ask(self, within_s: int, **wanted: Any) -> dict[str, Any]:
        said = await self._run({**wanted, "within_s": within_s})
        return read_outcome(said.decode(errors="replace"))


def by_name(most_bytes: Mapping[Path, int]) -> dict[str, int]:
    """Convert the limits of a measurement to the program's form."""
    return {workspace.name: most for workspace, most in most_bytes.items()}


def read_sizes(answer: dict[str, Any], workspaces: Iterable[Path]) -> dict[Path, Size]:
    """Convert the program's measurements."""
    sizes = answer["sizes"]
    return {workspace: Size(*sizes[workspace.name]) for workspace in workspaces}


def check_end(status: int | None, complaint: str = "") -> None:
    """Fail with BackendUnavailable unless a program has succeeded."""
    if status != 0:
        said = complaint.strip()[-_MAX_SHOWN_CHARACTERS:]
        raise BackendUnavailable(
            f"the program for workspaces ended with status {status}{said and f': {said}'}"
        )


def read_outcome(said: str) -> dict[str, Any]:
    """Parse the program's answer; fails with WorkspaceRefused or BackendError."""
    answer = read_answer(said, ANSWER)
    if "error" not in answer:
        return answer
    if answer["code"] == "IO_ERROR":
        raise BackendError(f"the workspace store failed: {answer['error']}")
    if answer["code"] == "IN_USE":
        raise WorkspaceInUse(f"the workspace cannot be removed: {answer['error']}")
    reason = Reason.LIMIT_EXCEEDED if answer["code"] in _LIMITS else None
    message = f"the workspace cannot be copied: {answer['error']}"
    raise WorkspaceRefused(message, reason=reason)


def run_here(folder: Path, root: Path, supervisor: bytes) -> Run:
    """Return a function that runs the program on `root`; it is installed when it is needed."""

    async def run(wanted: dict[str, Any]) -> bytes:
        program = await asyncio.to_thread(_installed, folder, supervisor)
        # It ends with this executor, so that the next one finds no work in progress.
        request = json.dumps({**wanted, "root": str(root), "parent": os.getpid()})
        argv = (sys.executable, "-I", "-S", str(program), "--folders", request)
        status, said = await _run(argv, wanted["within_s"])
        check_end(status)
        return said

    return run


class LocalStore(FolderStore):
    """The workspaces of this machine."""

    def __init__(self, root: Path, run: Run) -> None:
        super().__init__(HERE, run)
        self._root = root

    async def remove(self, workspace: Path) -> None:
        # rm starts in a tenth of the program's time, and nearly always suffices.
        paths = [self._root / name for name in (PART + workspace.name, workspace.name)]
        if left := await asyncio.to_thread(_remove_empty, paths):
            rm = ("rm", "-rf", "--", *map(str, left))
            await _run(rm, _WORK_DEADLINE_S, stderr=asyncio.subprocess.DEVNULL)
            if await asyncio.to_thread(_remove_empty, paths):
                await super().remove(workspace)


def _remove_empty(paths: Sequence[Path]) -> list[Path]:
    """Remove empty folders; return the paths that are left."""
    return [path for path in paths if not remove_empty(str(path.parent), path.name)]


async def _run(
    argv: Sequence[str], within_s: float, stderr: int | None = None
) -> tuple[int | None, bytes]:
    """Run a program to its end; return its status and what it wrote, or raise BackendError."""
    try:
        async with _running(argv, stderr) as process, asyncio.timeout(within_s):
            said, _ = await process.communicate()
    except TimeoutError:
        raise BackendError(f"not done within {within_s:g} s") from None
    return process.returncode, said


@contextlib.asynccontextmanager
async def _running(
    argv: Sequence[str], stderr: int | None
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run a program for the time of the block; it has ended afterwards."""
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            cwd="/",
        )
    )
    try:
        yield await asyncio.shield(starting)
    finally:
        # The process starts even if the caller leaves.
        process = await starting
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await unbroken(process.wait())


def _installed(folder: Path, supervisor: bytes) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return install_supervisor(supervisor, folder, str(folder)) / PROGRAM
