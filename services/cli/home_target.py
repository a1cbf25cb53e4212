"""A folder that a home is written into, as a whole or not at all."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from services.cli.home_source import is_named, located
from services.errors import FailedPrecondition
from services.home_files import check_path, obstacle
from services.ids import new_id


class Target:
    """Collects the files in a folder beside, and puts them in their places when all are there."""

    def __init__(self, folder: Path, own: str, without: Sequence[str], *, overwrite: bool) -> None:
        self.count = 0
        self._folder = folder
        self._own = own
        self._without = without
        self._overwrite = overwrite
        self._beside = folder.with_name(f".{folder.name}.{new_id('exp')}")
        self._files: list[str] = []
        self._stream: BinaryIO | None = None

    def check(self) -> None:
        """Refuse a folder that has something, unless that was said."""
        if self._folder.exists() and not self._folder.is_dir():
            raise FailedPrecondition(f"{self._folder} is no folder")
        if not self._overwrite and self._folder.is_dir() and any(self._folder.iterdir()):
            raise FailedPrecondition(
                f"{self._folder} is not empty; choose another folder, or say --overwrite"
            )

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._make)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._remove)

    async def begin(self, profile: str, path: str, mode: int) -> None:
        """Begin a file."""
        check_path(profile, path)
        await asyncio.to_thread(self._begin, located(profile, self._own, path), mode)

    async def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        if self._stream is not None and data:
            await asyncio.to_thread(self._stream.write, data)

    async def finish(self) -> None:
        """Put them all in their places."""
        await asyncio.to_thread(self._finish)

    def _make(self) -> None:
        try:
            self._beside.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FailedPrecondition(f"{self._beside}: {error.strerror}") from None

    def _begin(self, path: str, mode: int) -> None:
        self._close()
        if is_named(path, self._without):
            return
        target = self._beside / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stream = target.open("xb")
        target.chmod(mode & 0o777)
        self._files.append(path)
        self.count += 1

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _finish(self) -> None:
        self._close()
        if not self._folder.exists() or not any(self._folder.iterdir()):
            self._beside.replace(self._folder)
            return
        for path in self._files:
            if problem := obstacle(self._folder, path):
                raise FailedPrecondition(f"{path} has no place in {self._folder}: {problem}")
        for path in self._files:
            (self._folder / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._beside / path).replace(self._folder / path)

    def _remove(self) -> None:
        self._close()
        shutil.rmtree(self._beside, ignore_errors=True)
