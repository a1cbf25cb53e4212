"""Replaces a regular expression in many files; shows a diff, and writes only when told."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Iterator, List, Tuple

USAGE = """\
examples:
  replace.py '\\bold_name\\b' new_name src --glob '*.py'
  replace.py --fixed 'http://old.example' 'https://new.example' docs README.md --write
  replace.py '(\\d\\d)/(\\d\\d)/(\\d{4})' '\\3-\\2-\\1' notes --expect 12 --write
"""
LEFT_OUT = {".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"}
MAX_BYTES = 16 * 1024 * 1024


def tracked(folder: Path) -> List[Path]:
    """The files of a folder that git does not ignore, or all of them."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        done = None
    if done is not None and done.returncode == 0:
        names = os.fsdecode(done.stdout).split("\0")
        return [folder / name for name in names if name]
    found: List[Path] = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        found += [Path(where) / name for name in names]
    return found


def wanted(paths: List[Path], globs: List[str]) -> Iterator[Path]:
    """Every ordinary file that is meant, once."""
    seen = set()
    for path in paths:
        if not path.exists():
            sys.exit(f"replace: there is no {path}")
        for each in tracked(path) if path.is_dir() else [path]:
            fits = not globs or any(fnmatch(each.name, glob) for glob in globs)
            if fits and each not in seen and each.is_file() and not each.is_symlink():
                seen.add(each)
                yield each


def replaced(text: str, pattern: re.Pattern[str], by: str, whole: bool) -> Tuple[str, int]:
    """The new text, and how many hits it had."""
    if whole:
        return pattern.subn(by, text)
    lines, hits = [], 0
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        after, count = pattern.subn(by, body)
        lines.append(after + line[len(body) :])
        hits += count
    return "".join(lines), hits


def write(path: Path, data: bytes, backup: str) -> None:
    """Replace a file as a whole; its rights stay."""
    if backup:
        shutil.copy2(path, f"{path}{backup}")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".replace-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        shutil.copymode(path, name)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def parsed() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pattern", help="a Python regular expression")
    parser.add_argument("by", help="what comes in its place; \\1 is its first group")
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders")
    parser.add_argument("--glob", action="append", default=[], help="only names like '*.md'")
    parser.add_argument("--fixed", action="store_true", help="both are plain text")
    parser.add_argument("--ignore-case", action="store_true", help="capitals do not matter")
    parser.add_argument("--multiline", action="store_true", help="a hit may cross lines")
    parser.add_argument("--expect", type=int, help="write only if there are exactly so many hits")
    parser.add_argument("--backup", default="", help="keep originals with this at their end")
    parser.add_argument("--write", action="store_true", help="do it; else only show it")
    return parser.parse_args()


def main() -> int:
    """The exit code: 0 when there were hits, 1 when there were none."""
    options = parsed()
    by = options.by.replace("\\", "\\\\") if options.fixed else options.by
    changes: List[Tuple[Path, bytes]] = []
    total = 0
    try:
        source = re.escape(options.pattern) if options.fixed else options.pattern
        pattern = re.compile(source, re.IGNORECASE if options.ignore_case else 0)
        for path in wanted(options.paths, options.glob):
            data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else b"\0"
            if b"\0" in data:
                continue
            before = data.decode("utf-8", "surrogateescape")
            after, hits = replaced(before, pattern, by, options.multiline)
            total += hits
            if after != before:
                changes.append((path, after.encode("utf-8", "surrogateescape")))
                show(path, before, after)
    except (re.error, IndexError) as error:
        sys.exit(f"replace: the pattern or the replacement is wrong: {error}")
    except OSError as error:
        sys.exit(f"replace: cannot read {error.filename}: {error.strerror}")
    print(f"{total} hits in {len(changes)} files")
    if options.expect is not None and total != options.expect:
        sys.exit(f"replace: {options.expect} hits were expected, so nothing is written")
    if options.write:
        for path, data in changes:
            write(path, data, options.backup)
        print(f"wrote {len(changes)} files")
    elif changes:
        print("nothing is written; --write does it")
    return 0 if total else 1


def show(path: Path, before: str, after: str) -> None:
    """Print what changes in a file."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=1
    )
    print("\n".join(lines).encode("utf-8", "replace").decode())


if __name__ == "__main__":
    sys.exit(main())
