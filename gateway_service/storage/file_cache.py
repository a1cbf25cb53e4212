"""Received files in the home, by digest: fetched in chunks, and dropped by age and size."""

import asyncio
import hashlib
import logging
import tempfile
import time
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from gateway_service.errors import Refused
from gateway_service.messages import FileKind, RemoteFile
from services.home.paths import HomePaths, private_folder

FOLDERS = {
    FileKind.IMAGE: "image_cache",
    FileKind.VOICE: "audio_cache",
    FileKind.AUDIO: "audio_cache",
    FileKind.VIDEO: "document_cache",
    FileKind.DOCUMENT: "document_cache",
}
KEEP_S = 7 * 86_400.0

_log = logging.getLogger(__name__)


class CachedFile(Struct, frozen=True):
    """A file in the home."""

    path: Path
    length_bytes: int
    sha256: str


class FileCache(Struct, frozen=True):
    """The folders of received files."""

    home: HomePaths
    max_bytes: int
    """How much is kept, for at most a week."""

    async def fetch(
        self, file: RemoteFile, chunks: AsyncIterable[bytes], max_bytes: int
    ) -> CachedFile:
        """Store a file as it comes; Refused if it is larger than `max_bytes`, or empty."""
        folder, digest, length = self.home.root / FOLDERS[file.kind], hashlib.sha256(), 0
        part = await asyncio.to_thread(_open, folder)
        path = Path(part.name)
        try:
            async for chunk in chunks:
                length += len(chunk)
                if length > max_bytes:
                    raise too_large(max_bytes)
                digest.update(chunk)
                await asyncio.to_thread(part.write, chunk)
            if not length:
                raise Refused("it is empty")
            await asyncio.to_thread(part.close)
            found = CachedFile(folder / digest.hexdigest(), length, digest.hexdigest())
            await asyncio.to_thread(path.replace, found.path)
        finally:
            part.close()
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return found

    def prune(self, now_s: Callable[[], float] = time.time) -> int:
        """Delete old files, and the oldest of too many; return their number. Blocks."""
        folders = [self.home.root / name for name in sorted(set(FOLDERS.values()))]
        found = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
        ages = [(path.stat(), path) for path in found if path.is_file()]
        kept = count = 0
        for stat, path in sorted(ages, key=lambda each: -each[0].st_mtime):
            kept += stat.st_size
            if kept > self.max_bytes or now_s() - stat.st_mtime > KEEP_S:
                path.unlink(missing_ok=True)
                count += 1
        return count


def too_large(max_bytes: int) -> Refused:
    """Return the refusal of a file that is larger than the limit."""
    return Refused(f"it is larger than {max_bytes // 1_000_000} MB")


def _open(folder: Path) -> IO[Any]:
    private_folder(folder)
    return tempfile.NamedTemporaryFile(dir=folder, prefix=".part-", delete=False)
