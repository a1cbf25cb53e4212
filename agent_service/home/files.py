"""Homes as files: what comes in is put aside first, and from then on it only goes forward.

Files that come are written into a folder beside the databases. Once all are there and nothing is in
the way, a list of them is written, which is the decision: whoever finds it, also after a crash,
puts the rest in place.
"""

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from agent_service.home.base import PIECE_BYTES, Existing, Taken, check_places, refuse
from agent_service.skills.files import HomeSkillFiles
from agent_service.storage.profiles import FileProfiles
from services.errors import FailedPrecondition, InvalidArgument
from services.home import HomeError, HomePaths, private_folder, replace_file
from services.home_files import (
    Contents,
    HomeFile,
    check_path,
    contents,
    is_secret,
    obstacle,
    profiles_of,
)
from services.ids import new_id
from services.lifecycle import unbroken

FOLDER = "incoming"
DECISION = "decision.json"
_LOCK = "lock"
_MEMORIES = ("memories/MEMORY.md", "memories/USER.md")
_OWNERS = 0o600

_log = logging.getLogger(__name__)


class FileHomes:
    """All files of a home, which other programs may read and change as well."""

    def __init__(self, home: HomePaths) -> None:
        self._home = home
        self._putting = asyncio.Lock()

    async def profiles(self) -> Sequence[str]:
        """The profiles that the home has a folder of."""
        return await asyncio.to_thread(profiles_of, self._home)

    async def contents(self, profile: str) -> Contents:
        """What moves with a profile."""
        return await asyncio.to_thread(contents, self._home, profile)

    async def read(self, file: HomeFile) -> AsyncGenerator[bytes]:
        """A file in pieces."""
        path = self._home.profile(file.profile).root / file.path
        stream = await asyncio.to_thread(_open, path)
        if stream is None:
            return
        try:
            while data := await asyncio.to_thread(stream.read, PIECE_BYTES):
                yield data
        finally:
            await asyncio.to_thread(stream.close)

    @asynccontextmanager
    async def incoming(self) -> AsyncGenerator["_Incoming"]:
        """Take files by way of a folder beside the databases."""
        folder = self._home.state / FOLDER / new_id("imp")
        lock = await asyncio.to_thread(_new_folder, folder)
        try:
            yield _Incoming(self._home, folder, self._putting)
        finally:
            await unbroken(asyncio.to_thread(_leave, folder, lock))

    async def recover(self) -> None:
        """Finish what was decided, and forget what was not."""
        await asyncio.to_thread(_recover, self._home)


class _Incoming:
    """Files that were put aside."""

    def __init__(self, home: HomePaths, folder: Path, putting: asyncio.Lock) -> None:
        self._home = home
        self._folder = folder
        self._putting = putting
        self._files: dict[tuple[str, str], HomeFile] = {}
        self._open: Path | None = None
        self._waiting = bytearray()

    async def add(self, file: HomeFile) -> None:
        """Begin a file."""
        check_path(file.profile, file.path)
        self._home.profile(file.profile)
        key = (file.profile, file.path)
        if key in self._files:
            raise InvalidArgument(f"{file.path} came twice", fields={"file.path": "each once"})
        await self._flush()
        self._files[key] = file
        self._open = self._folder / str(len(self._files) - 1)
        await asyncio.to_thread(self._open.touch, _OWNERS)

    async def write(self, data: bytes) -> None:
        """Add to the file."""
        if self._open is None:
            raise InvalidArgument("data came before a file", fields={"data": "after a file"})
        self._waiting += data
        if len(self._waiting) >= PIECE_BYTES * 4:
            await self._flush()

    async def put(self, existing: Existing, *, dry_run: bool) -> Taken:
        """Put them in their places."""
        await self._flush()
        async with self._putting, AsyncExitStack() as locks:
            if not dry_run:
                await self._lock(locks)
            taken = await asyncio.to_thread(self._compared)
            if existing is Existing.REFUSE:
                refuse(taken.replaced)
            if existing is Existing.KEEP:
                taken = Taken(taken.added, (), taken.replaced, taken.unchanged)
            if not dry_run and taken.written:
                # To its end also when the caller goes away: from here on it is decided.
                await unbroken(asyncio.to_thread(self._decide, set(taken.written)))
        return taken

    async def _flush(self) -> None:
        if self._open is not None and self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            await asyncio.to_thread(_append, self._open, data)

    async def _lock(self, locks: AsyncExitStack) -> None:
        """Hold what the agent itself changes, in an order that everybody keeps to."""
        documents = FileProfiles(self._home)
        for profile in sorted({profile for profile, _ in self._files}):
            if any(owner == profile and path.startswith("skills/") for owner, path in self._files):
                skills = HomeSkillFiles(self._home.profile(profile).skills)
                await locks.enter_async_context(skills.locked())
            for name in _MEMORIES:
                if (profile, name) in self._files:
                    await locks.enter_async_context(documents.opened(profile, name))

    def _compared(self) -> Taken:
        check_places(self._files, self._files)
        added: list[tuple[str, str]] = []
        replaced: list[tuple[str, str]] = []
        unchanged: list[tuple[str, str]] = []
        for number, (profile, path) in enumerate(self._files):
            root = self._home.profile(profile).root
            problem = obstacle(root, path)
            if problem:
                raise FailedPrecondition(f"{path} ({profile}) has no place: {problem}")
            if not os.path.lexists(root / path):
                added.append((profile, path))
            elif _is_same(self._folder / str(number), root / path):
                unchanged.append((profile, path))
            else:
                replaced.append((profile, path))
        return Taken(added, replaced, (), unchanged)

    def _decide(self, wanted: set[tuple[str, str]]) -> None:
        files = [
            {
                "number": number,
                "profile": profile,
                "path": path,
                "mode": _mode(file),
                "before": _digest(self._home.profile(profile).root / path),
            }
            for number, ((profile, path), file) in enumerate(self._files.items())
            if (profile, path) in wanted
        ]
        replace_file(self._folder / DECISION, json.dumps(files), _OWNERS)
        _finish(self._home, self._folder)


def _mode(file: HomeFile) -> int:
    if is_secret(file.path):
        return _OWNERS
    return (file.mode & 0o777) | _OWNERS


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}") from None


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise HomeError(f"{path.parent} cannot be written: {error.strerror}") from None


def _is_same(left: Path, right: Path) -> bool:
    try:
        with left.open("rb") as ours, right.open("rb") as theirs:
            if os.fstat(ours.fileno()).st_size != os.fstat(theirs.fileno()).st_size:
                return False
            pairs = iter(lambda: (ours.read(PIECE_BYTES), theirs.read(PIECE_BYTES)), (b"", b""))
            return all(one == other for one, other in pairs)
    except OSError as error:
        raise HomeError(f"{right} cannot be read: {error.strerror}") from None


def _digest(path: Path) -> str:
    """Of what stands somewhere; empty where nothing does."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}") from None


def _finish(home: HomePaths, folder: Path) -> None:
    """Put in place what was decided, but for what somebody has changed since."""
    touched: set[Path] = set()
    for one in json.loads((folder / DECISION).read_bytes()):
        target = Path(os.path.realpath(home.profile(one["profile"]).root / one["path"]))
        source = folder / str(one["number"])
        if not source.exists():
            continue  # it is in place
        if _digest(target) != one["before"]:
            _log.warning("%s was changed before an import reached it, and stays", target)
            continue
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            source.chmod(one["mode"])
            _move(source, target)
        except OSError as error:
            why = f"{target} cannot be written: {error.strerror}"
            raise HomeError(f"{why}; the rest follows at the next start") from None
        touched.add(target.parent)
    for parent in touched:
        _sync(parent)
    (folder / DECISION).unlink()


def _move(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target.with_name(f".{target.name}.{source.parent.name}")
        shutil.copy(source, beside)
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        beside.replace(target)
        source.unlink()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _new_folder(folder: Path) -> int:
    private_folder(folder.parent)
    folder.mkdir(mode=0o700)
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNERS)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _leave(folder: Path, lock: int) -> None:
    """Forget what was put aside; what was decided and could not be finished waits for the next
    start.
    """
    try:
        if not (folder / DECISION).exists():
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _recover(home: HomePaths) -> None:
    for folder in _left_over(home.state / FOLDER):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNERS)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (folder / DECISION).exists():
                _finish(home, folder)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # another replica is at it
        except (HomeError, OSError) as error:
            # It waits, but nobody else for it: the agent is of use without these files.
            _log.error(
                "an import is not finished: %s; put that right and start the agent again, "
                "or delete %s to give up the rest of the import",
                error,
                folder,
            )
        finally:
            os.close(lock)


def _left_over(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in sorted(folder.iterdir()) if path.is_dir())
