"""The text of Excel workbooks (.xlsx): what each cell shows, else its formula."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime, timedelta

from agent_service.documents.parts import (
    Full,
    Package,
    Text,
    Unreadable,
    attribute,
    local,
)

BOOK = "xl/workbook.xml"
_LINKS = "xl/_rels/workbook.xml.rels"
_STRINGS, _STYLES = "xl/sharedStrings.xml", "xl/styles.xml"
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
"""Numbers of formats for dates and times that no file spells out."""
_NO_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - no zone either
_MAX_DAYS = 2_958_466
_MAX_COLUMNS = 16_384


def read(data: bytes, text: Text) -> None:
    """Add a line for each row that is not empty, cells between tabs, sheet after sheet."""
    package = Package(data, text)
    if BOOK not in package.names:
        raise Unreadable("it is no Excel workbook")
    book = _Book(package)
    for name, part in book.sheets():
        text.add(f"[sheet {name}]")
        if part not in package.names:
            continue
        for number, cells in book.rows(part):
            text.add(f"{number}:\t" + "\t".join(cells))


class _Book:
    """What the cells of a workbook refer to."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._strings = list(self._shared())
        self._dates = self._formats_of_dates()
        self._epoch = _EPOCH

    def sheets(self) -> list[tuple[str, str]]:
        """The names of the sheets and of their parts, in their order."""
        targets: dict[str, str] = {}
        if _LINKS in self._package.names:
            for element in self._package.elements(_LINKS):
                if local(element) == "Relationship":
                    target = attribute(element, "Target")
                    name = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
                    targets[element.attrib.get("Id", "")] = name
        found: list[tuple[str, str]] = []
        for element in self._package.elements(BOOK):
            if local(element) == "sheet":
                relation = next((v for k, v in element.attrib.items() if k.endswith("}id")), "")
                found.append((element.attrib.get("name", ""), targets.get(relation, "")))
            elif local(element) == "workbookPr" and attribute(element, "date1904") in ("1", "true"):
                self._epoch = _EPOCH_1904
        return found

    def rows(self, part: str) -> Iterator[tuple[int, list[str]]]:
        """The rows of a sheet that have anything, with their numbers."""
        number = 0
        for element in self._package.elements(part):
            if local(element) != "row":
                continue
            stated = attribute(element, "r")
            number = int(stated) if stated.isdecimal() else number + 1
            cells = self._cells(element)
            element.clear()
            if any(cells):
                yield number, cells

    def _cells(self, row: ET.Element) -> list[str]:
        cells: list[str] = []
        for cell in row:
            column = _column(attribute(cell, "r"), len(cells))
            cells += [""] * (column - len(cells))
            cells.append(_line(self._shown(cell)))
        while cells and not cells[-1]:
            cells.pop()
        return cells

    def _shown(self, cell: ET.Element) -> str:
        kind, value, formula = attribute(cell, "t"), "", ""
        for found in cell:
            if local(found) == "v":
                value = found.text or ""
            elif local(found) == "f":
                formula = found.text or ""
            elif local(found) == "is":
                value = _joined(found)
        if not value:
            return f"={formula}" if formula else ""
        if kind == "s":
            index = int(value) if value.isdecimal() else len(self._strings)
            return self._strings[index] if index < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        is_date = not kind or kind == "n"
        return self._date(value) if is_date and attribute(cell, "s") in self._dates else value

    def _date(self, value: str) -> str:
        try:
            days = float(value)
        except ValueError:
            return value
        if not 0 <= days < _MAX_DAYS:
            return value
        at = self._epoch + timedelta(seconds=round(days * 86_400))
        if days < 1:
            return at.strftime("%H:%M:%S")
        return at.strftime("%Y-%m-%d" if days == int(days) else "%Y-%m-%d %H:%M:%S")

    def _shared(self) -> Iterator[str]:
        if _STRINGS not in self._package.names:
            return
        for element in self._package.elements(_STRINGS):
            if local(element) == "si":
                yield _joined(element)
                element.clear()

    def _formats_of_dates(self) -> frozenset[str]:
        """Which styles of cells show dates or times."""
        if _STYLES not in self._package.names:
            return frozenset()
        own: set[str] = set()
        dates: set[str] = set()
        for element in self._package.elements(_STYLES):
            if local(element) == "numFmt":
                code = _NO_DATE.sub("", attribute(element, "formatCode")).lower()
                if any(letter in code for letter in "ymdhs"):
                    own.add(attribute(element, "numFmtId"))
            elif local(element) == "cellXfs":
                for index, style in enumerate(element):
                    number = attribute(style, "numFmtId")
                    if number in own or (number.isdecimal() and int(number) in _DATES):
                        dates.add(str(index))
        return frozenset(dates)


def _joined(element: ET.Element) -> str:
    """The text of a string, whose parts may look differently; without how it is pronounced."""
    parts: list[str] = []
    for found in element:
        if local(found) == "t":
            parts.append(found.text or "")
        elif local(found) == "r":
            parts += [inner.text or "" for inner in found if local(inner) == "t"]
    return "".join(parts)


def _column(reference: str, after: int) -> int:
    """The index of a cell's column; the next one where the cell does not say."""
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = number * 26 + ord(letter.upper()) - ord("A") + 1
    if number > _MAX_COLUMNS:
        raise Full("a row of it is too long")
    return number - 1 if number > after else after


def _line(text: str) -> str:
    return text.replace("\t", " ").replace("\r", "").replace("\n", " ")
