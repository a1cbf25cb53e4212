"""Makes Markdown tables, bar charts of text and comparisons from CSV files."""

from __future__ import annotations

import argparse
import csv
import re
import sys
import unicodedata
from typing import Dict, List

USAGE = """\
examples:
  render.py table load.csv --columns service,errors --sort errors
  render.py bars load.csv --label service --value requests
  render.py change before.csv after.csv --label service --value errors
"""
BLOCKS = " ▏▎▍▌▋▊▉█"
Row = Dict[str, str]


def read(path: str) -> List[Row]:
    """The rows of a CSV file, or of standard input."""
    stream = sys.stdin if path == "-" else open(path, encoding="utf-8-sig", newline="")
    with stream:
        text = stream.read()
    first = text.partition("\n")[0]
    rows = csv.DictReader(text.splitlines(), delimiter=max(",;\t|", key=first.count), restval="")
    return [{name: cell or "" for name, cell in row.items() if name} for row in rows]


def number(text: str) -> float:
    """The number that a cell is; 0 for none."""
    try:
        return float(re.sub(r"[,\s'_%]", "", text))
    except ValueError:
        return 0.0


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    return bool(re.fullmatch(r"[+-]?[\d,'_]*\.?\d+ ?%?", text.strip()))


def width(text: str) -> int:
    """The columns that a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    marks = sum(unicodedata.combining(letter) > 0 for letter in text)
    return len(text) + wide - marks


def shown(value: float) -> str:
    """A number with its thousands separated."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def need(rows: List[Row], *names: str) -> None:
    """Exit where a column is not there."""
    for name in names:
        if rows and name not in rows[0]:
            sys.exit(f"render: there is no column {name!r}; there are {', '.join(rows[0])}")


def table(rows: List[Row], names: List[str]) -> None:
    """Print a Markdown table whose columns also align as they stand."""
    right = {name for name in names if all(is_number(r[name]) for r in rows if r[name].strip())}
    cells = [[" ".join(row[name].replace("|", "\\|").split()) for name in names] for row in rows]
    widths = [max(3, *(width(line[at]) for line in [names, *cells])) for at in range(len(names))]

    def line(texts: List[str]) -> str:
        parts = []
        for name, text, most in zip(names, texts, widths):
            room = " " * (most - width(text))
            parts.append(room + text if name in right else text + room)
        return "| " + " | ".join(parts) + " |"

    rules = ["-" * (most - 1) + ":" if name in right else "-" * most for name, most in zip(names, widths)]
    print(line(names))
    print("| " + " | ".join(rules) + " |")
    for texts in cells:
        print(line(texts))


def bars(rows: List[Row], label: str, value: str, most: int) -> None:
    """Print a bar for each row."""
    values = [number(row[value]) for row in rows]
    if min(values, default=0) < 0:
        sys.exit("render: bars are for values that are not negative; take a table")
    largest, label_width = max(values, default=0) or 1, max((width(r[label]) for r in rows), default=0)
    number_width = max((len(shown(each)) for each in values), default=0)
    for row, each in zip(rows, values):
        eighths = round(each / largest * most * 8)
        bar = "█" * (eighths // 8) + BLOCKS[eighths % 8].strip()
        room = " " * (label_width - width(row[label]))
        print(f"{row[label]}{room}  {shown(each):>{number_width}}  {bar}")


def change(before: List[Row], after: List[Row], label: str, value: str) -> None:
    """Print what became of each value, the largest change first."""
    old = {row[label]: number(row[value]) for row in before}
    new = {row[label]: number(row[value]) for row in after}
    rows = []
    for name in sorted({*old, *new}, key=lambda name: (-abs(new.get(name, 0) - old.get(name, 0)), name)):
        left, right = old.get(name), new.get(name)
        gap = (right or 0) - (left or 0)
        percent = "new" if left is None else "gone" if right is None else ""
        if not percent:
            percent = f"{100 * gap / left:+.1f} %" if left else "" if not gap else "from 0"
        texts = ["" if each is None else shown(each) for each in (left, right)]
        rows.append(
            {label: name, "before": texts[0], "after": texts[1], "change": f"{gap:+,g}", "%": percent}
        )
    table(rows, [label, "before", "after", "change", "%"])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("table", "bars", "change"))
    parser.add_argument("files", nargs="+", help="CSV files; - is standard input")
    parser.add_argument("--columns", help="columns of the table, with commas between them")
    parser.add_argument("--sort", help="column to order by, the largest first")
    parser.add_argument("--most", type=int, default=50, help="rows to show (default 50)")
    parser.add_argument("--label", help="column of the names")
    parser.add_argument("--value", help="column of the numbers")
    parser.add_argument("--width", type=int, default=40, help="longest bar (default 40)")
    options = parser.parse_args()
    if options.what != "table" and not (options.label and options.value):
        parser.error(f"{options.what} needs --label and --value")
    if len(options.files) != (2 if options.what == "change" else 1):
        parser.error("change takes two files, the others one")
    try:
        found = [read(path) for path in options.files]
    except OSError as error:
        sys.exit(f"render: cannot read {error.filename}: {error.strerror}")
    except (UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"render: that is no CSV in UTF-8: {error}")
    rows = found[0]
    if not rows:
        sys.exit(f"render: {options.files[0]} has no rows")
    for each in found:
        need(each, *filter(None, [options.label, options.value, options.sort]))
    if options.sort:
        rows.sort(key=lambda row: -number(row[options.sort]))
    if options.what == "change":
        change(found[0], found[1], options.label, options.value)
    elif options.what == "bars":
        bars(rows[: options.most], options.label, options.value, options.width)
    else:
        names = options.columns.split(",") if options.columns else list(rows[0])
        need(rows, *names)
        table(rows[: options.most], names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
