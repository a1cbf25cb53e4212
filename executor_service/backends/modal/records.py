"""What is remembered on disk of boxes that Modal runs: what their tags may not or cannot hold.

One file a box, readable by its owner only. It is written before Modal is asked for the box and
removed when the box has ended, so that no box of ours lives without one. Everything here blocks
for a moment.
"""

import re
from pathlib import Path

from msgspec import DecodeError, Struct, json

from executor_service.backends.base import Box
from services.validation import decode

_KEY = re.compile("[a-z0-9_]{1,63}")


class Record(Struct, frozen=True):
    """One box."""

    key: str
    pool: str
    workspace: str

    def to_box(self, backend: str, native_id: str) -> Box:
        """The box as the executor knows it."""
        return Box(self.key, backend, native_id, Path(self.workspace), self.pool)


class Records:
    """The files of all boxes, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, record: Record) -> None:
        """Remember a box that is about to be; FileExistsError or ValueError for its key."""
        if not _KEY.fullmatch(record.key):
            raise ValueError(f"{record.key!r} cannot be the key of a box")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(record.key)
        file.touch(mode=0o600, exist_ok=False)
        file.write_bytes(json.encode(record))

    def load(self, key: str) -> Record | None:
        """A box that is remembered; one whose file is not whole was never asked for."""
        try:
            return decode(self._file(key).read_bytes(), Record)
        except (FileNotFoundError, DecodeError):
            return None

    def forget(self, key: str) -> None:
        """The box has ended."""
        self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"
