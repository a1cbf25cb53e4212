"""Folders as tar archives."""

import io
import tarfile
from collections.abc import Callable, Mapping


def packed(files: Mapping[str, bytes], mode_of: Callable[[bytes], int]) -> bytes:
    """Return a reproducible archive of files, with the mode that each content has."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode_of(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()
