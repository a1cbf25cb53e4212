"""Collects action items `- [ ] what (@owner, due 2026-03-01)` from Markdown files."""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import date
from pathlib import Path
from typing import Iterator, List, NamedTuple

USAGE = """\
examples:
  actions.py minutes
  actions.py minutes --owner ann --today 2026-03-01 --json
"""
ITEM = re.compile(r"^\s*[-*] \[(?P<mark>[ xX])\] (?P<what>.+?)\s*(?:\((?P<more>[^()]*)\))?\s*$")
OWNER = re.compile(r"@([\w.-]+|\?)")
DUE = re.compile(r"\bdue (\d{4}-\d\d-\d\d)\b")
OVERDUE = 3
"""The exit code when something is overdue."""


class Item(NamedTuple):
    """One action item."""

    due: str
    owner: str
    what: str
    is_done: bool
    where: str


def items_of(path: Path) -> Iterator[Item]:
    """The items of one file."""
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        found = ITEM.match(line)
        if found:
            more = found["more"] or ""
            owner, due = OWNER.search(more), DUE.search(more)
            is_ours = owner or due or "due" in more
            what = found["what"] if is_ours or not more else f"{found['what']} ({more})"
            yield Item(
                due=due[1] if due else "",
                owner=owner[1] if owner else "?",
                what=what,
                is_done=found["mark"] != " ",
                where=f"{path}:{number}",
            )


def files_of(paths: List[Path]) -> Iterator[Path]:
    """Every Markdown or text file."""
    for path in paths:
        if path.is_dir():
            found = (each for kind in ("*.md", "*.txt") for each in path.rglob(kind))
            yield from sorted(found)
        else:
            yield path


def valid_day(text: str) -> date:
    """A day from the command line."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2026-03-01") from None


def main() -> int:
    """The exit code: 0, or 3 when something is overdue."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders")
    parser.add_argument("--owner", help="only those of one person")
    parser.add_argument("--done", action="store_true", help="also those that are done")
    parser.add_argument("--today", type=valid_day, default=date.today(), help="such as 2026-03-01")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    options = parser.parse_args()
    try:
        found = [item for path in files_of(options.paths) for item in items_of(path)]
    except OSError as error:
        sys.exit(f"actions: cannot read {error.filename}: {error.strerror}")
    chosen = sorted(
        (item for item in found if options.done or not item.is_done),
        key=lambda item: (item.due or "9999", item.owner),
    )
    if options.owner:
        chosen = [item for item in chosen if item.owner.lower() == options.owner.lower().lstrip("@")]
    today = options.today.isoformat()
    overdue = [item for item in chosen if item.due and item.due < today and not item.is_done]
    if options.json:
        print(json.dumps([item._asdict() for item in chosen], ensure_ascii=False, indent=1))
    for item in [] if options.json else chosen:
        mark = "done" if item.is_done else "LATE" if item in overdue else "open"
        print(f"{mark}  {item.due or '?':10}  @{item.owner:12}  {item.what}  ({item.where})")
    if not options.json:
        print(f"{len(chosen)} items, {len(overdue)} overdue")
    return OVERDUE if overdue else 0


if __name__ == "__main__":
    sys.exit(main())
