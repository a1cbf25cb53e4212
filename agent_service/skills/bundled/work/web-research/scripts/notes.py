"""Checks notes of a research: claims without a source, sources that are not used or not complete."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Dict, List
from urllib.parse import urlsplit

USAGE = """\
example:
  notes.py notes.md

The notes have a part `## Claims` with lines `- claim [1]`, and a part `## Sources` with lines
`[1] title, publisher, 2026-01-15, https://…`.
"""
SOURCE = re.compile(r"^\[(\d+)\]\s*(.*)$")
MARK = re.compile(r"\[(\d+)\]")
DATE = re.compile(r"\b\d{4}(-\d\d(-\d\d)?)?\b")
ADDRESS = re.compile(r"https?://\S+")


def parts_of(text: str) -> Dict[str, List[str]]:
    """The lines of each part, by its heading in small letters."""
    found: Dict[str, List[str]] = {}
    name = ""
    for line in text.splitlines():
        heading = re.match(r"^#+\s+(.*?)\s*$", line)
        if heading:
            name = heading[1].lower()
        found.setdefault(name, []).append(line)
    return found


def problems(claims: List[str], sources: Dict[str, str]) -> List[str]:
    """What is missing."""
    found: List[str] = []
    used = set()
    hosts: Dict[str, str] = {}
    for number, about in sources.items():
        address = ADDRESS.search(about)
        if not address:
            found.append(f"source [{number}] has no address")
        elif not DATE.search(about.replace(address[0], "")):
            found.append(f"source [{number}] has no date")
        hosts[number] = urlsplit(address[0]).hostname or "" if address else ""
    for claim in claims:
        marks = MARK.findall(claim)
        used.update(marks)
        shown = claim.lstrip("-* ")[:80]
        if not marks:
            found.append(f"claim without a source: {shown}")
        for mark in marks:
            if mark not in sources:
                found.append(f"claim names source [{mark}], which is not listed: {shown}")
        if re.search(r"\d", MARK.sub("", claim)) and len({hosts.get(m, m) for m in marks}) == 1:
            found.append(f"figure with one source only: {shown}")
    found += [f"source [{number}] is not used" for number in sources if number not in used]
    return found


def main() -> int:
    """The exit code: 0 when nothing is missing, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    try:
        found = parts_of(options.file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"notes: cannot read {options.file}: {error}")
    if "claims" not in found or "sources" not in found:
        sys.exit("notes: the file needs the parts `## Claims` and `## Sources`")
    claims = [line for line in found["claims"] if re.match(r"\s*[-*] ", line)]
    listed = (SOURCE.match(line.strip()) for line in found["sources"])
    sources = {match[1]: match[2] for match in listed if match}
    missing = problems(claims, sources)
    for problem in missing:
        print(f"- {problem}")
    print(f"{len(claims)} claims, {len(sources)} sources, {len(missing)} things to look at")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
