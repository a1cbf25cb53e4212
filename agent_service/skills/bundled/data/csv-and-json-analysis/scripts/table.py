"""Profiles, groups and filters tables in CSV, TSV, JSON or JSON Lines; the standard library only."""

from __future__ import annotations

import argparse
import csv
import json
import operator
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

USAGE = """\
examples:
  table.py profile sales.csv
  table.py group sales.csv --by city --sum price --where 'date>=2026-01-01'
  table.py rows orders.json --path data.items --where 'status~^(open|late)$' --columns id,status
"""
Row = Dict[str, str]
OPERATORS: Dict[str, Callable[[Any, Any], bool]] = {
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
MAX_DISTINCT = 100_000
MAX_VALUES = 1_000_000
SHOWN = 40


def number(text: str) -> Optional[float]:
    """The number that a text is."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text.strip()):
        return None
    return float(text)


def text_of(value: Any) -> str:
    """A value of JSON as a cell."""
    if value is None:
        return ""
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def read(options: argparse.Namespace) -> Iterator[Row]:
    """The rows of the file."""
    kind = Path(options.file).suffix.lower()
    encoding = "utf-8-sig" if options.encoding == "utf-8" else options.encoding
    with open(options.file, encoding=encoding, newline="") as stream:
        if kind in (".jsonl", ".ndjson"):
            found: Any = (json.loads(line) for line in stream if line.strip())
        elif kind == ".json":
            found = json.load(stream)
            for key in filter(None, options.path.split(".")):
                found = found[int(key)] if isinstance(found, list) else found[key]
        else:
            delimiter = options.delimiter or ("\t" if kind == ".tsv" else sniffed(stream))
            for row in csv.DictReader(stream, delimiter=delimiter, restval="", restkey="(more)"):
                yield {name: text_of(cell) for name, cell in row.items()}
            return
        for each in [found] if isinstance(found, dict) else found:
            if not isinstance(each, dict):
                sys.exit("table: the JSON is no list of objects; say with --path where one is")
            yield {str(name): text_of(cell) for name, cell in each.items()}


def sniffed(stream: Any) -> str:
    """The separator that the first line has most of."""
    first = stream.readline()
    stream.seek(0)
    return max(",;\t|", key=first.count)


def condition(text: str) -> Callable[[Row], bool]:
    """What a --where asks for."""
    found = re.match(r"(?P<column>[^=!<>~]+)(?P<sign>!=|<=|>=|=|<|>|~)(?P<value>.*)", text, re.S)
    if not found:
        sys.exit(f"table: --where {text!r} is not of the form column>value")
    column, sign, value = (found[name] for name in ("column", "sign", "value"))
    column, value = column.strip(), value.strip()
    if sign == "~":
        pattern = re.compile(value)
        return lambda row: bool(pattern.search(cell(row, column)))
    compare, wanted = OPERATORS[sign], number(value)

    def holds(row: Row) -> bool:
        have = cell(row, column)
        if wanted is not None and number(have) is not None:
            return compare(number(have), wanted)
        if wanted is not None and sign not in ("=", "!="):
            return False
        return compare(have, value)

    return holds


def cell(row: Row, column: str) -> str:
    """A cell by the name of its column, which has to be there."""
    if column not in row:
        sys.exit(f"table: there is no column {column!r}; there are {', '.join(row)}")
    return row[column]


def chosen(options: argparse.Namespace) -> Iterator[Row]:
    """The rows that every condition holds for."""
    conditions = [condition(text) for text in options.where]
    return (row for row in read(options) if all(holds(row) for holds in conditions))


class Column:
    """What is known of one column."""

    def __init__(self) -> None:
        self.empty = 0
        self.distinct: Counter[str] = Counter()
        self.numbers: List[float] = []
        self.count = 0
        self.least = self.most = ""

    def add(self, text: str) -> None:
        """Take in a cell."""
        if not text.strip():
            self.empty += 1
            return
        self.count += 1
        value = number(text)
        if value is not None and len(self.numbers) < MAX_VALUES:
            self.numbers.append(value)
        if text in self.distinct or len(self.distinct) < MAX_DISTINCT:
            self.distinct[text] += 1
        self.least = min(self.least or text, text)
        self.most = max(self.most, text)

    def told(self, name: str) -> List[str]:
        """A line of the profile."""
        are_numbers = self.count > 0 and len(self.numbers) == min(self.count, MAX_VALUES)
        kind = "number" if are_numbers else "text"
        if self.numbers and not are_numbers:
            kind = f"mixed ({len(self.numbers)} numbers)"
        low, high, middle = self.least, self.most, ""
        if are_numbers:
            low, high = f"{min(self.numbers):g}", f"{max(self.numbers):g}"
            middle = f"{statistics.median(self.numbers):g}"
        more = "+" if len(self.distinct) >= MAX_DISTINCT else ""
        often = ", ".join(f"{text[:20]} ({n})" for text, n in self.distinct.most_common(3))
        counts = [str(self.empty), f"{len(self.distinct)}{more}"]
        return [name, kind, *counts, low[:20], middle, high[:20], often]


def profile(options: argparse.Namespace) -> Tuple[List[str], List[List[str]], str]:
    """One line a column."""
    columns: Dict[str, Column] = {}
    rows = 0
    for row in chosen(options):
        for name, text in row.items():
            column = columns.setdefault(name, Column())
            if not column.count + column.empty and rows:
                column.empty = rows
            column.add(text)
        rows += 1
    head = ["column", "kind", "empty", "distinct", "least", "median", "most", "most often"]
    return head, [column.told(name) for name, column in columns.items()], f"{rows} rows"


def group(options: argparse.Namespace) -> Tuple[List[str], List[List[str]], str]:
    """Counts and sums by the values of some columns."""
    by = options.by.split(",")
    counts: Counter[Tuple[str, ...]] = Counter()
    values: Dict[Tuple[str, ...], List[float]] = {}
    skipped = 0
    for row in chosen(options):
        key = tuple(cell(row, name) for name in by)
        counts[key] += 1
        if options.sum:
            value = number(cell(row, options.sum))
            skipped += value is None
            values.setdefault(key, []).extend([] if value is None else [value])
    if not options.sum:
        ordered = [[*key, str(count)] for key, count in counts.most_common()]
        return [*by, "rows"], ordered, f"{sum(counts.values())} rows in {len(counts)} groups"
    keys = sorted(counts, key=lambda key: -sum(values[key]))
    lines = [[*key, str(counts[key]), *figures(values[key])] for key in keys]
    total = sum(sum(each) for each in values.values())
    note = f"{sum(counts.values())} rows, sum {total:g}; {skipped} without a number in {options.sum}"
    return [*by, "rows", "sum", "mean", "median"], lines, note


def figures(values: List[float]) -> List[str]:
    """Sum, mean and median."""
    if not values:
        return ["0", "", ""]
    return [f"{sum(values):g}", f"{statistics.mean(values):g}", f"{statistics.median(values):g}"]


def rows(options: argparse.Namespace) -> Tuple[List[str], List[List[str]], str]:
    """The rows themselves."""
    wanted = options.columns.split(",") if options.columns else []
    lines: List[List[str]] = []
    head: List[str] = wanted
    count = 0
    for row in chosen(options):
        head = head or list(row)
        count += 1
        if count <= options.most:
            lines.append([cell(row, name) if name in wanted else row.get(name, "") for name in head])
    return head, lines, f"{count} rows, {len(lines)} shown"


def show(head: List[str], lines: List[List[str]]) -> None:
    """Print a table with aligned columns."""
    cells = [[" ".join(text.split())[:SHOWN] for text in line] for line in (head, *lines)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("profile", "group", "rows"))
    parser.add_argument("file")
    parser.add_argument("--where", action="append", default=[], help="such as 'price>=10'")
    parser.add_argument("--by", help="columns to group by, with commas between them")
    parser.add_argument("--sum", help="column of numbers to add up in each group")
    parser.add_argument("--columns", help="columns of `rows`, with commas between them")
    parser.add_argument("--most", type=int, default=50, help="rows to show (default 50)")
    parser.add_argument("--path", default="", help="where in a JSON file the list is: data.items")
    parser.add_argument("--delimiter", help="separator of a CSV file, if not the usual ones")
    parser.add_argument("--encoding", default="utf-8", help="such as cp1252 (default utf-8)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    options = parser.parse_args()
    if options.what == "group" and not options.by:
        parser.error("group needs --by COLUMN")
    return options


def main() -> int:
    """The exit code."""
    options = parsed()
    try:
        head, lines, note = {"profile": profile, "group": group, "rows": rows}[options.what](options)
    except OSError as error:
        sys.exit(f"table: cannot read {options.file}: {error.strerror}")
    except UnicodeDecodeError:
        sys.exit(f"table: {options.file} is not {options.encoding}; try --encoding cp1252")
    except (ValueError, LookupError, csv.Error, re.error) as error:
        sys.exit(f"table: {options.file}: {error}")
    if options.json:
        print(json.dumps([dict(zip(head, line)) for line in lines], ensure_ascii=False, indent=1))
        return 0
    show(head, lines)
    print(f"({note})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
