"""Checks a skill's folder: frontmatter, description, length, files, and what a reader would miss."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List

USAGE = """\
example:
  check_skill.py draft/word-lists
"""
FOLDERS = ("references", "templates", "scripts", "assets")
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
ONE_OFF = re.compile(r"(^|-)(pr|issue|bug|ticket)-?\d+|^(fix|hotfix)-|\d{4}-?\d\d-?\d\d")
SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(sk|ghp|xox[bp])[-_][A-Za-z0-9-]{16,}|\bAKIA[0-9A-Z]{16}\b"
)
OWN_PATH = re.compile(r"(?<![\w/])/(home|Users|root)/[\w.-]+")
MAX_BODY = 100_000
LONG_BODY = 12_000
MAX_FILE = 1024 * 1024


def fields_of(text: str) -> Dict[str, str]:
    """The top fields of the frontmatter; those that are blocks have an empty text."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"^([A-Za-z][\w-]*):\s*(.*)$", line)
        if match:
            found[match[1]] = match[2].strip().strip("\"'")
    return found


def wrong(folder: Path, text: str) -> Iterator[str]:
    """What must be mended."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    if not match:
        yield "SKILL.md does not begin with frontmatter between two lines of ---"
        return
    fields, body = fields_of(match[1]), match[2]
    name, description = fields.get("name", ""), fields.get("description", "")
    if not NAME.fullmatch(name) or len(name) > 64:
        yield f"name {name!r}: 1 to 64 of a-z and 0-9, single hyphens between them"
    elif name != folder.resolve().name:
        yield f"name is {name}, the folder is {folder.resolve().name}"
    if not 1 <= len(description) <= 1024:
        yield f"description has {len(description)} characters; 1 to 1024 are allowed"
    yield from hard_to_read(match[1], description)
    for field in sorted(set(fields) - FIELDS):
        yield f"field {field} belongs under metadata"
    if not body.strip():
        yield "the text is empty"
    if len(body) >= MAX_BODY:
        yield f"the text has {len(body)} characters; it must be below {MAX_BODY}"
    for path in sorted(folder.rglob("*")):
        yield from wrong_file(path, path.relative_to(folder))


def hard_to_read(between: str, description: str) -> Iterator[str]:
    """What strict readers of YAML refuse."""
    if ": " in description and not re.search(r"^description:\s*[\"'|>]", between, re.MULTILINE):
        yield "description has a colon and a space: put it into quotes"
    if re.search(r"^\s+[\w-]+:\s*[\[{]", between, re.MULTILINE):
        yield "strict readers want lists and maps in lines of their own, not in [ ] or { }"


def wrong_file(path: Path, inside: Path) -> Iterator[str]:
    """What is wrong with one file."""
    if path.is_symlink():
        yield f"{inside} is a link; links are not followed"
    elif path.is_file() and str(inside) != "SKILL.md":
        if len(inside.parts) != 2 or inside.parts[0] not in FOLDERS or not FILE.fullmatch(path.name):
            yield f"{inside} has to be directly in one of {', '.join(FOLDERS)}"
        if path.stat().st_size > MAX_FILE:
            yield f"{inside} is larger than 1 MiB"
        elif SECRET.search(path.read_text("utf-8", "replace")):
            yield f"{inside} seems to hold a secret"


def doubtful(folder: Path, text: str) -> Iterator[str]:
    """What could be better."""
    description = fields_of(text.split("\n---\n", maxsplit=1)[0]).get("description", "")
    if not re.search(r"\b(use|when|whenever)\b", description, re.IGNORECASE):
        yield "the description does not say when to use it"
    if len(description) < 40:
        yield "the description is short; name the words that a user would say"
    if ONE_OFF.search(folder.resolve().name):
        yield "the name is that of one occasion; name the class of work"
    if len(text) > LONG_BODY:
        yield "the text is long; move tables and background into references/"
    if SECRET.search(text):
        yield "the text seems to hold a secret"
    if found := OWN_PATH.search(text):
        yield f"{found[0]} is a path of one machine"
    yield from unnamed(folder, text)


def unnamed(folder: Path, text: str) -> Iterator[str]:
    """Files that the text does not name, and those that it names and that are not there."""
    for kind in FOLDERS:
        for path in sorted((folder / kind).glob("*")):
            if path.name not in text:
                yield f"the text does not mention {kind}/{path.name}"
    for named in sorted(set(re.findall(r"\b(?:references|templates|scripts|assets)/[\w.-]+\w", text))):
        if not (folder / named).exists():
            yield f"the text mentions {named}, which is not there"


def main() -> int:
    """The exit code: 0, or 1 when something must be mended."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder with SKILL.md")
    options = parser.parse_args()
    try:
        text = (options.folder / "SKILL.md").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"check_skill: cannot read {options.folder / 'SKILL.md'}: {error}")
    errors: List[str] = list(wrong(options.folder, text))
    remarks = list(doubtful(options.folder, text))
    for error in errors:
        print(f"wrong: {error}")
    for remark in remarks:
        print(f"better: {remark}")
    print(f"{len(errors)} to mend, {len(remarks)} to consider")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
