"""Tar archives: read without believing anything, every header judged before what it announces.

Python's own module would read whatever a header announces into memory before it could be asked, and
its ways to look at a header first differ between releases. What is no file, folder or symbolic link
is refused here, and so is a file that would run as somebody else.
"""

from __future__ import annotations

import os
import stat
import zlib
from typing import BinaryIO, Iterator, NamedTuple

from executor_service.supervisor.files import FileError

BLOCK_BYTES = 512
FILE, FOLDER, LINK = b"0", b"5", b"2"
_SAME_AS_FILE = (b"\0", b"7")
NAMES = _PAX, _PAX_OF_ALL, _LONG_NAME, _LONG_TARGET = b"x", b"g", b"L", b"K"
"""Headers that only say how the entry after them, or all, are called."""
_MAX_NAMES_BYTES = 64 * 1024
"""Of a header that carries long names."""
_PIECE_BYTES = 256 * 1024
_GZIP = b"\x1f\x8b"
_NAME_BYTES = 100
_LARGEST = 8**11 - 1
_END = bytes(BLOCK_BYTES)
_KEYS = frozenset((b"path", b"linkpath", b"size", b"mtime"))
_SPARSE = "GNU.sparse"
_MOST_DIGITS = 20


class Entry(NamedTuple):
    """One file, folder or symbolic link of an archive, or a header of names, whose own is empty."""

    kind: bytes
    name: str
    size: int
    mode: int
    mtime: float
    target: str
    """Of a symbolic link."""


def header(entry: Entry) -> bytes:
    """What comes before the content of an entry."""
    name, target = (os.fsencode(text) for text in (entry.name, entry.target))
    names: list[bytes] = []
    if len(name) > _NAME_BYTES:
        names.append(_record(b"path", name))
    if len(target) > _NAME_BYTES:
        names.append(_record(b"linkpath", target))
    if entry.size > _LARGEST:
        names.append(_record(b"size", b"%d" % entry.size))
    packed = b"".join(names)
    before = _block(_PAX, b"names", len(packed), 0o644, 0, b"") + packed + padding(len(packed))
    size, mtime = min(entry.size, _LARGEST), max(0, int(entry.mtime))
    own = _block(entry.kind, name, size, entry.mode, min(mtime, _LARGEST), target)
    return before + own if names else own


def padding(size: int) -> bytes:
    """What fills the last block after so many bytes."""
    return bytes(-size % BLOCK_BYTES)


def _record(key: bytes, value: bytes) -> bytes:
    rest = b" %b=%b\n" % (key, value)
    size = len(rest) + len(b"%d" % len(rest))
    size = len(rest) + len(b"%d" % size)  # its own digits count, and may be one more for it
    return b"%d%b" % (size, rest)


def _block(kind: bytes, name: bytes, size: int, mode: int, mtime: int, target: bytes) -> bytes:
    owner = b"%07o\0" % 0
    start = name[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0") + b"%07o\0" % mode + owner * 2
    start += b"%011o\0%011o\0" % (size, mtime)
    end = kind + target[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0") + b"ustar\x0000"
    checksum = sum(start) + sum(end) + 8 * ord(" ")
    return (start + b"%06o\0 " % checksum + end).ljust(BLOCK_BYTES, b"\0")


class Reader:
    """Goes through an archive, plain or gzip; what is damaged or refused raises FileError."""

    def __init__(self, archive: BinaryIO) -> None:
        self._archive = archive
        self._inflater = None
        if archive.read(len(_GZIP)) == _GZIP:
            self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        archive.seek(0)
        self._buffer, self._at = b"", 0
        self._left = 0
        """Of the content of the last entry, its padding included."""

    def entries(self) -> Iterator[Entry]:
        """Each entry and header; content is read before the next is asked for, or passed over."""
        names: dict[str, str] = {}
        while True:
            while self._left:
                self._left -= len(self._take(min(self._left, _PIECE_BYTES)))
            block = self._take(BLOCK_BYTES)
            if block == _END:
                return
            entry = _entry(block, names)
            padded = entry.size + -entry.size % BLOCK_BYTES
            if entry.kind in NAMES:
                if entry.size > _MAX_NAMES_BYTES:
                    raise FileError("TOO_LARGE", "the archive has a header that is too large")
                names.update(_names(entry.kind, self._take(padded)[: entry.size]))
            else:
                names = {}
                self._left = padded
            yield entry

    def content(self, entry: Entry) -> Iterator[bytes]:
        """What is in the file that was last given, piece by piece."""
        size = min(entry.size, self._left)
        while size:
            piece = self._take(min(size, _PIECE_BYTES))
            size -= len(piece)
            self._left -= len(piece)
            yield piece

    def _take(self, size: int) -> bytes:
        while len(self._buffer) - self._at < size:
            more = self._read()
            if not more:
                raise FileError("NOT_AN_ARCHIVE", "it ends in the middle")
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        start, self._at = self._at, self._at + size
        return self._buffer[start : self._at]

    def _read(self) -> bytes:
        if self._inflater is None:
            return self._archive.read(_PIECE_BYTES)
        while not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or self._archive.read(_PIECE_BYTES)
            try:
                more = self._inflater.decompress(packed, _PIECE_BYTES)
            except zlib.error as error:
                raise FileError("NOT_AN_ARCHIVE", f"it cannot be unpacked: {error}") from None
            if more or not packed:
                return more
        return b""


def _entry(block: bytes, names: dict[str, str]) -> Entry:
    kind = block[156:157]
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise FileError("NOT_AN_ARCHIVE", "it is no tar archive, or a damaged one")
    if kind in NAMES:
        return Entry(kind, "", _number(block[124:136]), 0, 0, "")
    prefix = _text(block[345:500]) if block[257:262] == b"ustar" and block[263:265] == b"00" else ""
    name = names.get("path") or "/".join(filter(None, (prefix, _text(block[:100]))))
    kind = FILE if kind in _SAME_AS_FILE else kind
    kind = FOLDER if kind == FILE and name.endswith("/") else kind
    mode = _number(block[100:108])
    if _SPARSE in names or kind not in (FILE, FOLDER, LINK):
        raise FileError("REFUSED", f"{name!r} is no plain file, folder or symbolic link")
    if kind == FILE and mode & (stat.S_ISUID | stat.S_ISGID):
        raise FileError("REFUSED", f"{name!r} would run as somebody else")
    size = _decimal(names["size"]) if "size" in names else _number(block[124:136])
    return Entry(
        kind,
        name,
        size if kind == FILE else 0,
        mode,
        _time(names["mtime"]) if "mtime" in names else _number(block[136:148]),
        names.get("linkpath") or _text(block[157:257]),
    )


def _names(kind: bytes, data: bytes) -> dict[str, str]:
    """What a header says of the entry that follows it."""
    if kind == _PAX_OF_ALL:
        return {}
    if kind == _LONG_NAME:
        return {"path": _text(data)}
    if kind == _LONG_TARGET:
        return {"linkpath": _text(data)}
    found: dict[str, str] = {}
    start = 0
    while start < len(data):
        blank = data.find(b" ", start, start + _MOST_DIGITS)
        end = start + _decimal(_text(data[start:blank]) if blank > 0 else "")
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if not equals or end <= blank or data[end - 1 : end] != b"\n":
            raise FileError("NOT_AN_ARCHIVE", "it has a damaged header")
        if key in _KEYS:
            found[_text(key)] = value.decode("utf-8", "surrogateescape")
        elif key.startswith(_SPARSE.encode()):
            found[_SPARSE] = ""
        start = end
    return found


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    """A number in octal, or in base 256 where it would not fit."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits.strip(b"01234567"):
        raise FileError("NOT_AN_ARCHIVE", "it is no tar archive, or a damaged one")
    return int(digits or b"0", 8)


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FileError("NOT_AN_ARCHIVE", "it has a damaged header")
    return int(text)


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FileError("NOT_AN_ARCHIVE", "it has a damaged header") from None
