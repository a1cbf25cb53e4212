"""What the readers of all kinds share: the text as it grows, and the parts of a package."""

import io
import time
import xml.etree.ElementTree as ET
import zipfile
import zlib
from collections.abc import Iterator

MAX_TEXT_CHARS = 8 * 1024 * 1024
MAX_PART_BYTES = 100 * 1024 * 1024
"""Of one part of a package as it is unpacked; one that is larger is not read further."""
MAX_S = 15.0
"""After which what there is has to do."""
_PIECE_BYTES = 64 * 1024
_DOCTYPE_BYTES = 18
"""Of the word in the widest encoding."""


class Unreadable(Exception):
    """It is no such document; the message says why."""


class Full(Exception):
    """The document goes on, and is not read further; the message says why."""


class Text:
    """The lines of a document as far as they are read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._room = MAX_TEXT_CHARS
        self._ends_at = time.monotonic() + MAX_S

    def add(self, text: str) -> None:
        """Take a line, or several; Full when no more may come."""
        self._room -= len(text) + 1
        if self._room < 0:
            raise Full("there is too much of it")
        self.lines += text.split("\n")
        self.check()

    def check(self) -> None:
        """Full when it takes too long."""
        if time.monotonic() > self._ends_at:
            raise Full("it takes too long")


class Package:
    """A ZIP file whose parts are XML."""

    def __init__(self, data: bytes, text: Text) -> None:
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError) as error:
            raise Unreadable("it is broken") from error
        self._text = text
        self.names = frozenset(self._file.namelist())

    def elements(self, name: str) -> Iterator[ET.Element]:
        """Each element of a part once it is whole, the inner ones first."""
        return (element for event, element in self.events(name) if event == "end")

    def events(self, name: str) -> Iterator[tuple[str, ET.Element]]:
        """Each element of a part as it begins (`start`) and once it is whole (`end`)."""
        parser: ET.XMLPullParser[ET.Element] = ET.XMLPullParser(["start", "end"])
        try:
            for piece in self._pieces(name):
                parser.feed(piece)
                yield from _read(parser)
            parser.close()
        except ET.ParseError as error:
            raise Unreadable("it is broken") from error
        yield from _read(parser)

    def _pieces(self, name: str) -> Iterator[bytes]:
        left, tail = MAX_PART_BYTES, b""
        try:
            with self._file.open(name) as part:
                while piece := part.read(_PIECE_BYTES):
                    left -= len(piece)
                    if left < 0:
                        raise Full("it is too large")
                    self._text.check()
                    seen = tail + piece
                    # Texts have to spell it otherwise; entities could make a little very much.
                    if b"<!DOCTYPE" in seen.replace(b"\0", b""):
                        raise Unreadable("it declares entities of its own")
                    tail = seen[-_DOCTYPE_BYTES:]
                    yield piece
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError) as error:
            # What is encrypted, or packed in a way that is not known, is a RuntimeError.
            raise Unreadable("it is broken or encrypted") from error


def _read(parser: "ET.XMLPullParser[ET.Element]") -> Iterator[tuple[str, ET.Element]]:
    for found in parser.read_events():
        if len(found) == 2 and isinstance(found[1], ET.Element):
            yield found[0], found[1]


def local(element: ET.Element) -> str:
    """An element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def attribute(element: ET.Element, name: str) -> str:
    """An attribute, whatever its namespace; empty where there is none."""
    found = element.attrib.get(name)
    if found is not None:
        return found
    return next((v for k, v in element.attrib.items() if k.rpartition("}")[2] == name), "")
