"""Media types of files by their names, without the machine's lists, whose reading blocks."""

from mimetypes import types_map
from pathlib import PurePosixPath

_MORE = {
    ".amr": "audio/amr",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mkv": "video/x-matroska",
    ".ogg": "audio/ogg",
    ".webp": "image/webp",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def media_type(name: str, default: str = "application/octet-stream") -> str:
    """Return the media type that a file's suffix stands for."""
    suffix = PurePosixPath(name).suffix.lower()
    return _MORE.get(suffix) or types_map.get(suffix, default)
