"""The text of Word documents (.docx)."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from agent_service.documents.parts import Package, Text, Unreadable, attribute, local

BODY = "word/document.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_LEFT_OUT = frozenset({"Fallback", "del", "moveFrom", "instrText", "pPr", "rPr"})
"""What is there a second time, was taken out, or is no text."""
_WHOLE = frozenset({"tbl", "Fallback"})
"""What is read as a whole, or not at all."""


def read(data: bytes, text: Text) -> None:
    """Add its lines: headings, paragraphs, lists and tables in their order, then the notes."""
    package = Package(data, text)
    if BODY not in package.names:
        raise Unreadable("it is no Word document")
    for line in _lines(package, BODY):
        text.add(line)
    for name in _NOTES:
        if name in package.names and (notes := [n for n in _lines(package, name) if n.strip()]):
            text.add("\n".join(["[notes]", *notes]))


def _lines(package: Package, name: str) -> Iterator[str]:
    depth = 0
    for event, element in package.events(name):
        kind = local(element)
        if kind in _WHOLE:
            depth += 1 if event == "start" else -1
        if event == "start" or depth:
            continue
        if kind == "tbl":
            yield from _rows(element)
        elif kind == "p":
            yield _paragraph(element)
        if kind in ("tbl", "p", *_WHOLE):
            element.clear()


def _rows(table: ET.Element) -> Iterator[str]:
    for row in table:
        if local(row) == "tr":
            cells = [_cell(cell) for cell in row if local(cell) == "tc"]
            yield f"| {' | '.join(cells)} |"


def _cell(cell: ET.Element) -> str:
    paragraphs = [_text(found).strip() for found in cell.iter() if local(found) == "p"]
    return " ".join(filter(None, paragraphs)).replace("\n", " ")


def _paragraph(paragraph: ET.Element) -> str:
    said = _text(paragraph)
    style = level = ""
    for found in paragraph.iter():
        if local(found) == "pStyle":
            style = attribute(found, "val")
        elif local(found) == "ilvl":
            level = attribute(found, "val")
    if style == "Title":
        return f"# {said}"
    if style.lower().startswith("heading") and style[7:].isdecimal():
        return f"{'#' * min(int(style[7:]), 6)} {said}"
    return f"{'  ' * min(int(level), 8)}- {said}" if level.isdecimal() else said


def _text(element: ET.Element) -> str:
    parts: list[str] = []
    waiting = [element]
    while waiting:
        found = waiting.pop()
        kind = local(found)
        if kind == "t":
            parts.append(found.text or "")
        elif kind in _BREAKS and found is not element:
            parts.append(_BREAKS[kind])
        elif kind not in _LEFT_OUT:
            waiting += reversed(found)
    return "".join(parts)
