"""Prints the text of a document as JSON, in a separate process with limits.

Runs as a file, with the kind as its argument and the document on standard input.
"""

import io
import json
import logging
import re
import sys
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, cast

MAX_S = 15.0
"""After this time the text read so far is returned."""
MAX_TEXT_CHARS = 8 * 1024 * 1024
MAX_PART_BYTES = 100 * 1024 * 1024
"""For one unpacked part of a package."""

BODY = "word/document.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_HIDDEN = frozenset({"Fallback", "del", "moveFrom", "instrText", "pPr", "rPr"})
"""Elements with repeated, deleted or no text."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Unreadable(Exception):
    """The file is not a document of this kind; the message says why."""


class Full(Exception):
    """Reading stops early; the message says why."""


class Text:
    """The lines of a document read so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._room = MAX_TEXT_CHARS
        self._ends_at = time.monotonic() + MAX_S

    def add(self, text: str) -> None:
        self._room -= len(text) + 1
        if self._room < 0:
            raise Full("it is too long to show in full")
        self.lines += text.split("\n")
        if time.monotonic() > self._ends_at:
            raise Full("reading all of it takes too long")


def read_pdf(data: bytes, text: Text) -> None:
    """Add the lines of each page, below a line with its number."""
    import pypdf
    from pypdf.errors import PyPdfError

    wrong = (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is encrypted")
    count = len(reader.pages)
    for number in range(count):
        text.add(f"[page {number + 1} of {count}]")
        try:
            page_text = reader.pages[number].extract_text().strip("\n")
        except wrong:
            page_text = "[this page cannot be read]"
        text.add(page_text or "[no text; the page may be a picture]")


def read_workbook(data: bytes, text: Text) -> None:
    """Add a tab-separated line for each row that is not empty, sheet by sheet."""
    import openpyxl

    _open(data)
    values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
    for sheet, sources in zip(values.worksheets, formulas.worksheets, strict=True):
        text.add(f"[sheet {sheet.title}]")
        rows = zip(
            sheet.iter_rows(values_only=True), sources.iter_rows(values_only=True), strict=False
        )
        for number, (shown, written) in enumerate(rows, sheet.min_row or 1):
            cells = [
                _cell(value if value is not None else formula)
                for value, formula in zip(shown, written, strict=False)
            ]
            if line := "\t".join(cells).rstrip("\t"):
                text.add(f"{number}:\t{line}")


def read_word(data: bytes, text: Text) -> None:
    """Add headings, paragraphs, lists and tables in order, then the notes."""
    package = _open(data)
    if BODY not in package.namelist():
        raise Unreadable("it is not a Word document")
    for line in _blocks(_part(package, BODY)):
        text.add(line)
    for name in set(_NOTES) & set(package.namelist()):
        notes = [line for line in _blocks(_part(package, name)) if line.strip()]
        if notes:
            text.add("\n".join(["[notes]", *notes]))


def read_notebook(data: bytes, text: Text) -> None:
    """Add the cells of a Jupyter notebook and their output, each below a heading line."""
    notebook: Any = json.loads(data)
    for number, cell in enumerate(notebook["cells"], 1):
        text.add(f"[cell {number}: {cell['cell_type']}]")
        _add_lines(text, cell["source"])
        for output in cell.get("outputs", ()):
            text.add(f"[{output['output_type']}]")
            shown: dict[str, Any] = output.get("data", output)
            _add_lines(text, shown.get("text/plain", shown.get("text", "")))
            _add_lines(text, "\n".join(output.get("traceback", ())) or output.get("evalue", ""))
            for name in shown:
                if name.startswith("image/"):
                    text.add(f"[{name}]")


READERS: Mapping[str, Callable[[bytes, Text], None]] = {
    "docx": read_word,
    "ipynb": read_notebook,
    "pdf": read_pdf,
    "xlsx": read_workbook,
}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime) and (value.hour, value.minute, value.second) == (0, 0, 0):
        value = date(value.year, value.month, value.day)
    shown = "" if value is None else str(value)
    return shown.replace("\t", " ").replace("\r", "").replace("\n", " ")


def _open(data: bytes) -> zipfile.ZipFile:
    package = zipfile.ZipFile(io.BytesIO(data))
    texts = [part for part in package.infolist() if part.filename.endswith(".xml")]
    if any(part.file_size > MAX_PART_BYTES for part in texts):
        raise Unreadable("it is too large")
    return package


def _part(package: zipfile.ZipFile, name: str) -> ET.Element:
    return ET.fromstring(package.read(name))  # noqa: S314 - the process has limits


def _blocks(element: ET.Element) -> Iterator[str]:
    for found in element:
        kind = _local(found.tag)
        if kind == "tbl":
            rows = (row for row in found if _local(row.tag) == "tr")
            for row in rows:
                cells = [_table_cell(cell) for cell in row if _local(cell.tag) == "tc"]
                yield f"| {' | '.join(cells)} |"
        elif kind == "p":
            yield _paragraph(found)
            # A text box is nested in its paragraph.
            for inner in found.iter():
                if _local(inner.tag) == "txbxContent":
                    yield from _blocks(inner)
        elif kind not in _HIDDEN:
            yield from _blocks(found)


def _table_cell(cell: ET.Element) -> str:
    paragraphs = [_text(found).strip() for found in cell.iter() if _local(found.tag) == "p"]
    return " ".join(filter(None, paragraphs)).replace("\n", " ")


def _paragraph(paragraph: ET.Element) -> str:
    said = _text(paragraph)
    style = level = ""
    for found in paragraph.iter():
        value = next((v for k, v in found.attrib.items() if _local(k) == "val"), "")
        if _local(found.tag) == "pStyle":
            style = value
        elif _local(found.tag) == "ilvl":
            level = value
    if style == "Title":
        return f"# {said}"
    if style.lower().startswith("heading") and style[7:].isdecimal():
        return f"{'#' * min(int(style[7:]), 6)} {said}"
    return f"{'  ' * min(int(level), 8)}- {said}" if level.isdecimal() else said


def _text(element: ET.Element) -> str:
    parts: list[str] = []
    for found in element:
        kind = _local(found.tag)
        if kind == "t":
            parts.append(found.text or "")
        elif kind in _BREAKS:
            parts.append(_BREAKS[kind])
        elif kind not in _HIDDEN and kind != "txbxContent":
            parts.append(_text(found))
    return "".join(parts)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _add_lines(text: Text, said: Any) -> None:
    whole = "".join(cast("list[str]", said)) if isinstance(said, list) else str(said)
    if whole := _COLOURS.sub("", whole).rstrip("\n"):
        text.add(whole)


def main() -> None:
    """Read the document and print its text, or an error; nothing if a library fails on it."""
    logging.disable()
    text, problem, cut = Text(), "", ""
    try:
        READERS[sys.argv[1]](sys.stdin.buffer.read(), text)
    except Unreadable as error:
        problem = str(error)
    except Full as error:
        cut = str(error)
    json.dump({"lines": text.lines, "problem": problem, "cut": cut}, sys.stdout)


if __name__ == "__main__":
    main()
