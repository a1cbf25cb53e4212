"""Cleans a CSV file into a new one and says what it changed; the standard library only."""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import re
import sys
import unicodedata
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Tuple

USAGE = """\
examples:
  clean.py raw.csv --dates day --decimal-comma amount               # only says what it would do
  clean.py raw.csv --dates day --drop-duplicates --out clean.csv
  clean.py raw.csv --similar city
"""
NOTHING = {"n/a", "na", "null", "none", "nan", "-", "--", "?", "#n/a"}
DAY_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y")
MONTH_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y")
ANY_ORDER = ("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y")
MOST_LISTED = 10


class Report:
    """What was changed, and what could not be."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.unread: List[str] = []

    def changed(self, what: str, before: str, after: str) -> str:
        """Count a change, if it is one."""
        self.counts[what] += before != after
        return after

    def not_read(self, line: int, column: str, text: str) -> str:
        """Remember a value that stays as it is."""
        self.unread.append(f"line {line}: {column}: {text!r}")
        return text


def plain(text: str) -> str:
    """A text with ordinary single spaces, in composed letters."""
    visible = "".join(" " if unicodedata.category(c) in ("Zs", "Cc", "Cf") else c for c in text)
    return unicodedata.normalize("NFC", " ".join(visible.split()))


def header(text: str) -> str:
    """A name of a column: letters, digits and underscores."""
    letters = unicodedata.normalize("NFKD", re.sub(r"\(.*?\)", "", text)).encode("ascii", "ignore")
    return re.sub(r"[^a-z0-9]+", "_", letters.decode().lower()).strip("_")


def date(text: str, month_first: bool) -> str:
    """The ISO date that a text is, or nothing."""
    for form in (*ANY_ORDER, *(MONTH_FIRST if month_first else DAY_FIRST)):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return ""


def decimal(text: str) -> str:
    """A number with a decimal point for one with a comma, or nothing."""
    found = re.sub(r"[\s€$£%']", "", text)
    if re.fullmatch(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?", found):
        return found.replace(".", "").replace(",", ".")
    return ""


class Cleaner:
    """Cleans rows as the options say."""

    def __init__(self, options: argparse.Namespace, mapped: Dict[str, Dict[str, str]]) -> None:
        self.options = options
        self.mapped = mapped
        self.report = Report()

    def row(self, line: int, row: Dict[str, str]) -> Dict[str, str]:
        """One row, clean."""
        return {name: self.cell(line, name, text) for name, text in row.items()}

    def cell(self, line: int, name: str, before: str) -> str:
        """One cell, clean."""
        report, options = self.report, self.options
        text = report.changed("spaces", before, plain(before))
        if text.lower() in NOTHING:
            return report.changed("words for nothing", text, "")
        if text and name in options.dates:
            found = date(text, options.month_first)
            text = report.changed("dates", text, found) if found else report.not_read(line, name, text)
        if text and name in options.decimal_comma:
            found = decimal(text)
            text = report.changed("numbers", text, found) if found else report.not_read(line, name, text)
        if name in options.lower:
            text = report.changed("capitals", text, text.lower())
        return report.changed("mapped", text, self.mapped.get(name, {}).get(text, text))


def read(options: argparse.Namespace) -> Tuple[List[str], List[List[str]]]:
    """The header and the rows."""
    encoding = "utf-8-sig" if options.encoding == "utf-8" else options.encoding
    with open(options.file, encoding=encoding, newline="") as stream:
        first = stream.readline()
        stream.seek(0)
        delimiter = options.delimiter or max(",;\t|", key=first.count)
        lines = [line for line in csv.reader(stream, delimiter=delimiter) if any(map(str.strip, line))]
    if not lines:
        sys.exit(f"clean: {options.file} is empty")
    return lines[0], lines[1:]


def names_of(head: List[str], keep: bool) -> List[str]:
    """Plain names of columns, each another one."""
    names: List[str] = []
    for number, text in enumerate(head, 1):
        name = (text.strip() if keep else header(text)) or f"column_{number}"
        while name in names:
            name += "_2"
        names.append(name)
    return names


def similar(values: List[str]) -> List[str]:
    """Pairs of values that may be one."""
    counts = Counter(plain(value) for value in values if value.strip())
    ordered, found = sorted(counts), []
    for at, left in enumerate(ordered):
        for right in ordered[at + 1 :]:
            if difflib.SequenceMatcher(None, left.lower(), right.lower()).ratio() >= 0.85:
                found.append(f"{left} ({counts[left]})  ~  {right} ({counts[right]})")
    return found


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--out", type=Path, help="the new file; without it nothing is written")
    for name, about in (
        ("--dates", "columns of dates, which become ISO"),
        ("--decimal-comma", "columns of numbers like 1.234,50"),
        ("--lower", "columns to write in small letters"),
    ):
        parser.add_argument(name, type=lambda text: text.split(","), default=[], help=about)
    parser.add_argument("--month-first", action="store_true", help="02/03 is the 3rd of February")
    parser.add_argument("--map", type=Path, help='JSON: {"column": {"before": "after"}}')
    parser.add_argument("--drop-duplicates", action="store_true", help="keep the first of equal rows")
    parser.add_argument("--keep-headers", action="store_true", help="leave names of columns alone")
    parser.add_argument("--similar", help="only list values of a column that differ by little")
    parser.add_argument("--delimiter", help="separator, if not one of , ; tab |")
    parser.add_argument("--encoding", default="utf-8", help="such as cp1252 (default utf-8)")
    return parser.parse_args()


def prepared(options: argparse.Namespace, names: List[str]) -> Dict[str, Dict[str, str]]:
    """The map; exits where an option names a column that is not there."""
    if not options.keep_headers:
        for option in ("dates", "decimal_comma", "lower"):
            setattr(options, option, [header(name) for name in getattr(options, option)])
        options.similar = options.similar and header(options.similar)
    mapped: Any = json.loads(options.map.read_text("utf-8")) if options.map else {}
    asked = [*options.dates, *options.decimal_comma, *options.lower, *mapped]
    for name in [*asked, *filter(None, [options.similar])]:
        if name not in names:
            sys.exit(f"clean: there is no column {name!r}; there are {', '.join(names)}")
    return mapped


def clean(options: argparse.Namespace) -> int:
    """Do it."""
    head, lines = read(options)
    names = names_of(head, options.keep_headers)
    cleaner = Cleaner(options, prepared(options, names))
    if options.similar:
        at = names.index(options.similar)
        print("\n".join(similar([line[at] for line in lines if len(line) > at])) or "no pairs")
        return 0
    rows, seen, duplicates, odd = [], set(), 0, 0
    for number, line in enumerate(lines, 2):
        odd += len(line) != len(names)
        filled = [*line, *[""] * len(names)][: max(len(names), 0)]
        row = cleaner.row(number, dict(zip(names, filled)))
        key = tuple(row.values())
        duplicates += key in seen
        if not (options.drop_duplicates and key in seen):
            rows.append(row)
        seen.add(key)
    cleaner.report.counts["headers"] = sum(a != b for a, b in zip(head, names))
    for what, count in cleaner.report.counts.most_common():
        print(f"{count:6d}  {what}")
    gone = "removed" if options.drop_duplicates else "left; --drop-duplicates removes them"
    print(f"{duplicates:6d}  equal rows ({gone})")
    print(f"{odd:6d}  rows with too many or too few cells")
    print(f"{len(cleaner.report.unread):6d}  values that could not be read, left as they are")
    for each in cleaner.report.unread[:MOST_LISTED]:
        print(f"        {each}")
    print(f"{len(lines)} rows came, {len(rows)} go")
    if options.out:
        if options.out.exists() and options.out.samefile(options.file):
            sys.exit("clean: --out is the original; choose another name")
        with options.out.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {options.out}")
    return 0


def main() -> int:
    """The exit code."""
    options = parsed()
    try:
        return clean(options)
    except OSError as error:
        sys.exit(f"clean: {error.filename}: {error.strerror}")
    except UnicodeDecodeError:
        sys.exit(f"clean: {options.file} is not {options.encoding}; try --encoding cp1252")
    except (ValueError, csv.Error) as error:
        sys.exit(f"clean: {error}")


if __name__ == "__main__":
    sys.exit(main())
