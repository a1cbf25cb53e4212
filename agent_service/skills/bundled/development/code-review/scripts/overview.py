"""Sums up a unified diff, and lists lines in it that a reviewer should look at."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

USAGE = """\
examples:
  git diff main...HEAD | overview.py
  overview.py change.diff --fail
"""
LOOK_AT = (
    ("conflict marker", re.compile(r"^(<{7}|={7}|>{7})( |$)")),
    ("left-over debugging", re.compile(r"\b(breakpoint\(\)|pdb\.set_trace|console\.log|debugger;)")),
    ("disabled test", re.compile(r"@(unittest\.|pytest\.mark\.)?skip\b|\b(it|test|describe)\.skip\(")),
    ("swallowed error", re.compile(r"except( Exception)?:\s*pass|catch\s*\([^)]*\)\s*\{\s*\}")),
    ("note to self", re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")),
    (
        "perhaps a secret",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b"
            r"|(?i:password|secret|api_?key|token)[\"']?\s*[:=]\s*[\"'][^\"'\s]{8,}[\"']"
        ),
    ),
)
IS_TEST = re.compile(r"(^|/)(tests?|spec|__tests__)/|(^|/)test_|_test\.|\.(test|spec)\.")
IS_CODE = re.compile(r"\.(py|js|jsx|ts|tsx|go|rs|java|kt|rb|php|c|cc|cpp|h|cs|sh|swift)$")
LARGE = 400
"""Lines of one file that are hard to review at once."""


class Added(NamedTuple):
    """A new line."""

    path: str
    number: int
    text: str


class Diff:
    """What a diff changes."""

    def __init__(self) -> None:
        self.files: dict[str, list[int]] = {}
        """Lines that were added and removed, by path."""
        self.added: list[Added] = []

    def read(self, lines: Iterator[str]) -> None:
        """Take in a unified diff."""
        path, number, old_left, new_left = "", 0, 0, 0
        for line in lines:
            if old_left > 0 or new_left > 0:
                if line.startswith("+"):
                    self.added.append(Added(path, number, line[1:].rstrip("\n")))
                    self.files[path][0] += 1
                elif line.startswith("-"):
                    self.files[path][1] += 1
                elif line.startswith("\\"):
                    continue
                number += not line.startswith("-")
                new_left -= not line.startswith("-")
                old_left -= not line.startswith("+")
            elif line.startswith("--- "):
                path = named(line)
            elif line.startswith("+++ "):
                path = path if named(line) == "/dev/null" else named(line)
                self.files.setdefault(path, [0, 0])
            elif found := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
                old, start, new = found.groups()
                number, old_left, new_left = int(start), int(old or 1), int(new or 1)


def named(line: str) -> str:
    """The path of a line --- or +++, without git's prefix."""
    return re.sub(r"^[ab]/", "", line[4:].split("\t", maxsplit=1)[0].strip().strip('"'))


def remarks(diff: Diff) -> Iterator[str]:
    """What a reviewer should look at."""
    for path, number, text in diff.added:
        for what, pattern in LOOK_AT:
            if pattern.search(text):
                shown = "(not shown)" if what == "perhaps a secret" else text.strip()[:100]
                yield f"{path}:{number}: {what}: {shown}"
    for path, (added, removed) in diff.files.items():
        if added + removed > LARGE:
            yield f"{path}: {added + removed} changed lines are many for one review"
    code = [path for path in diff.files if IS_CODE.search(path) and not IS_TEST.search(path)]
    if code and not any(IS_TEST.search(path) for path in diff.files):
        yield f"{len(code)} files of code changed, and no test"


def main() -> int:
    """The exit code is 0; with --fail it is 1 when there is something to look at."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("diff", nargs="?", help="file with the diff; else standard input")
    parser.add_argument("--fail", action="store_true", help="exit with 1 if something was found")
    options = parser.parse_args()
    try:
        text = Path(options.diff).read_text("utf-8", "replace") if options.diff else sys.stdin.read()
    except OSError as error:
        sys.exit(f"overview: cannot read {options.diff}: {error.strerror}")
    diff = Diff()
    diff.read(iter(text.splitlines(keepends=True)))
    if not diff.files:
        sys.exit("overview: that is no unified diff, or an empty one")
    for path, (added, removed) in sorted(diff.files.items(), key=lambda each: -sum(each[1])):
        print(f"{added:+6d} {-removed:6d}  {path}")
    found = list(remarks(diff))
    print(f"\n{len(diff.files)} files; {len(found)} to look at")
    for remark in found:
        print(f"- {remark}")
    return 1 if found and options.fail else 0


if __name__ == "__main__":
    sys.exit(main())
