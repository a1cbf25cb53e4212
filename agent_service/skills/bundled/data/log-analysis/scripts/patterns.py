"""Sums up log files: patterns of messages, how often, first and last seen, and counts over time."""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, TextIO

USAGE = """\
examples:
  patterns.py app.log app.log.1.gz
  patterns.py app.log --match 'ERROR|FATAL' --per hour
  patterns.py app.log --new-since 2026-01-05T10:05 --rare
"""
OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)"
    r"|(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<clock>\d\d:\d\d:\d\d)"
    r"|(?P<smonth>[A-Z][a-z]{2}) +(?P<sday>\d{1,2}) (?P<sclock>\d\d:\d\d:\d\d)"
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WIDTHS = {"day": 10, "hour": 13, "minute": 16}
PARTS = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I), "<uuid>"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b"), "<address>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"), "<mail>"),
    (re.compile(r"\b(0x)?(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", re.I), "<id>"),
    (re.compile(r"\"[^\"]*\"|'[^']*'"), "<text>"),
    (re.compile(r"(?<![A-Za-z_])[+-]?\d+(\.\d+)?"), "<n>"),
)
MAX_PATTERNS = 200_000
SHOWN = 160


class Seen(NamedTuple):
    """Where and when a pattern was seen."""

    count: int
    first: str
    last: str
    where: str


def moment(line: str) -> str:
    """The time in a line as `2026-01-05T10:00:01`; of syslog, which has no year, `0000-…`."""
    found = TIME.search(line[:200])
    if not found:
        return ""
    if found[1]:
        return f"{found[1]}T{found[2]}"
    day, month, year, clock = (found[name] for name in ("day", "month", "year", "clock"))
    if day is None:
        day, month, year = found["sday"], found["smonth"], "0000"
        clock = found["sclock"]
    if month not in MONTHS:
        return ""
    return f"{year}-{MONTHS.index(month) + 1:02d}-{int(day):02d}T{clock}"


def pattern(line: str) -> str:
    """A line without what differs each time."""
    text = TIME.sub("", line[:2000], count=1)
    for part, word in PARTS:
        text = part.sub(word, text)
    return " ".join(text.split()).lstrip("[]Z.,:<n> ")[:SHOWN]


def lines_of(path: str) -> Iterator[str]:
    """The lines of a file, packed or not, or of standard input."""
    if path == "-":
        yield from sys.stdin
        return
    opener = OPENERS.get(Path(path).suffix, open)
    stream: TextIO
    with opener(path, "rt", encoding="utf-8", errors="replace") as stream:
        yield from stream


class Summary:
    """What is known of all lines."""

    def __init__(self, wanted: Optional[str]) -> None:
        self.wanted = re.compile(wanted) if wanted else None
        self.patterns: Dict[str, Seen] = {}
        self.times: List[str] = []
        self.lines = self.matching = self.untimed = 0

    def read(self, path: str) -> None:
        """Take in a file."""
        at = ""
        for number, line in enumerate(lines_of(path), 1):
            self.lines += 1
            at = moment(line) or at
            if not line.strip() or (self.wanted and not self.wanted.search(line)):
                continue
            self.matching += 1
            self.untimed += not at
            self.times.append(at)
            self._count(pattern(line), at, f"{path}:{number}")

    def _count(self, text: str, at: str, where: str) -> None:
        before = self.patterns.get(text)
        if before is None and len(self.patterns) >= MAX_PATTERNS:
            text, before = "(other patterns)", self.patterns.get("(other patterns)")
        if before is None:
            self.patterns[text] = Seen(1, at, at, where)
        elif at and (not before.first or at < before.first):
            self.patterns[text] = Seen(before.count + 1, at, before.last or at, where)
        else:
            self.patterns[text] = before._replace(count=before.count + 1, last=max(before.last, at))


def show_patterns(summary: Summary, options: argparse.Namespace) -> None:
    """Print the patterns, most frequent or rarest first."""
    found = list(summary.patterns.items())
    if options.new_since:
        found = [each for each in found if each[1].first >= options.new_since]
    found.sort(key=lambda each: (each[1].count if options.rare else -each[1].count, each[1].first))
    for text, seen in found[: options.most]:
        print(f"{seen.count:8d}  {seen.first or '-':19}  {seen.last or '-':19}  {seen.where}")
        print(f"          {text}")
    if len(found) > options.most:
        print(f"({len(found) - options.most} more patterns; --most N shows more)")


def show_times(summary: Summary, per: str) -> None:
    """Print counts over time, with the gaps between them as they are."""
    counts = Counter(at[: WIDTHS[per]] for at in summary.times if at)
    largest = max(counts.values(), default=1)
    for at, count in sorted(counts.items()):
        print(f"{at}  {count:8d}  {'#' * max(1, round(40 * count / largest))}")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", help="log files, also .gz .bz2 .xz; - is standard input")
    parser.add_argument("--match", help="regular expression: only these lines")
    parser.add_argument("--per", choices=sorted(WIDTHS), help="count lines over time instead")
    parser.add_argument("--new-since", help="only patterns first seen then, such as 2026-01-05T10:05")
    parser.add_argument("--rare", action="store_true", help="the rarest first")
    parser.add_argument("--most", type=int, default=25, help="patterns to show (default 25)")
    options = parser.parse_args()
    try:
        summary = Summary(options.match)
        for path in options.files:
            summary.read(path)
    except re.error as error:
        sys.exit(f"patterns: --match is no regular expression: {error}")
    except (OSError, EOFError, lzma.LZMAError) as error:
        sys.exit(f"patterns: cannot read a file: {error}")
    if options.per:
        show_times(summary, options.per)
    else:
        show_patterns(summary, options)
    untimed = f", {summary.untimed} without a time" if summary.untimed else ""
    known = len(summary.patterns)
    print(f"({summary.matching} of {summary.lines} lines{untimed}; {known} patterns)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
