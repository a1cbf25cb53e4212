"""Shows the structure of a long text, cuts it into parts, and checks the figures of a summary."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import List, NamedTuple

USAGE = """\
examples:
  outline.py report.md
  outline.py report.md --split parts --words 1500
  outline.py report.md --check summary.txt
"""
HEADING = re.compile(r"^(#{1,6}) +(.+)$|^((?:\d+\.)*\d+\.?) +([A-ZÀ-Ý].{2,80})$")
FIGURE = re.compile(r"\d[\d.,'’ ]*\d|\d")


class Section(NamedTuple):
    """A part of the text below one heading."""

    level: int
    title: str
    line: int
    text: str


def sections(text: str) -> List[Section]:
    """The text by its headings, those of code blocks left alone."""
    found = [(0, "(beginning)", 1, [""])]
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        match = None if fenced else HEADING.match(line)
        if match:
            level = len(match[1]) if match[1] else match[3].rstrip(".").count(".") + 1
            title = match[2] or f"{match[3]} {match[4]}"
            found.append((level, title, number, [line]))
        else:
            found[-1][3].append(line)
    whole = [Section(level, title, line, "\n".join(body)) for level, title, line, body in found]
    return [each for each in whole if each.text.strip()]


def words(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


def parts(found: List[Section], most: int) -> List[str]:
    """The text in parts of at most so many words, at borders of sections and paragraphs."""
    pieces: List[str] = []
    for section in found:
        if words(section.text) <= most:
            pieces.append(section.text)
        else:
            pieces += re.split(r"\n\s*\n", section.text)
    cut: List[str] = []
    for piece in pieces:
        if cut and words(cut[-1]) + words(piece) <= most:
            cut[-1] += "\n\n" + piece
        else:
            cut.append(piece)
    return cut


def figures(text: str) -> List[str]:
    """The numbers in a text, whatever separates their thousands."""
    return [re.sub(r"[.,'’ ](?=\d{3}(\D|$))", "", found).strip(" .,") for found in FIGURE.findall(text)]


def check(source: str, summary: Path) -> int:
    """List the figures that the source does not have."""
    known = set(figures(source))
    missing = 0
    for number, line in enumerate(summary.read_text("utf-8").splitlines(), 1):
        for figure in figures(line):
            if figure not in known:
                missing += 1
                print(f"{summary}:{number}: {figure} does not stand in the source: {line.strip()}")
    print(f"{missing} figures are not in the source")
    return 1 if missing else 0


def split(found: List[Section], folder: Path, most: int) -> None:
    """Write the parts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(parts(found, most), 1):
        path = folder / f"part-{number:03d}.md"
        path.write_text(text.strip() + "\n", "utf-8")
        print(f"{path}: {words(text)} words")


def main() -> int:
    """The exit code: 0, or 1 when a check found something."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the text, as Markdown or plain")
    parser.add_argument("--split", type=Path, metavar="FOLDER", help="write it there in parts")
    parser.add_argument("--words", type=int, default=1500, help="words a part (default 1500)")
    parser.add_argument("--check", type=Path, metavar="SUMMARY", help="look up a summary's figures")
    options = parser.parse_args()
    try:
        text = options.file.read_text("utf-8-sig")
        if options.check:
            return check(text, options.check)
        found = sections(text)
        if options.split:
            split(found, options.split, max(50, options.words))
            return 0
    except OSError as error:
        sys.exit(f"outline: {error.filename}: {error.strerror}")
    except UnicodeDecodeError:
        sys.exit("outline: that is no text in UTF-8; read_file takes the text out of PDF and Word")
    for section in found:
        indent = "  " * max(0, section.level - 1)
        print(f"{words(section.text):7d}  line {section.line:<6d} {indent}{section.title}")
    print(f"{words(text):7d}  words in all, about {max(1, words(text) // 230)} minutes to read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
