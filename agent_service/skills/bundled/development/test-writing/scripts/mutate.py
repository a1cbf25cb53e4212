"""Breaks a Python file in one place at a time, and lists the breaks that no test notices."""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple

USAGE = """\
examples:
  mutate.py src/cart.py -- python3 -m unittest -q
  mutate.py --most 40 --timeout 20 app.py -- python3 -m pytest -x -q tests/test_app.py

The file is changed in place, one change at a time, and put back after each; commit it first.
"""
COMPARED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
COMPUTED = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
}
JOINED = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


class Change(NamedTuple):
    """Some bytes of one line that become others."""

    line: int
    begin: int
    before: str
    after: str


def changes(text: str) -> Iterator[Change]:
    """Every change that is worth a try."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(lines, node.left, node.comparators[0], COMPARED.get(type(node.ops[0])))
        elif isinstance(node, ast.BinOp):
            yield from between(lines, node.left, node.right, COMPUTED.get(type(node.op)))
        elif isinstance(node, ast.BoolOp):
            yield from between(lines, node.values[0], node.values[1], JOINED.get(type(node.op)))
        elif isinstance(node, ast.Constant) and node.end_lineno == node.lineno:
            yield from constant(lines, node)


def constant(lines: list[str], node: ast.Constant) -> Iterator[Change]:
    """True for False, and a number for the next."""
    if isinstance(node.value, bool):
        yield Change(node.lineno, node.col_offset, str(node.value), str(not node.value))
    elif isinstance(node.value, int):
        end = node.end_col_offset or node.col_offset
        before = lines[node.lineno - 1].encode()[node.col_offset : end].decode()
        yield Change(node.lineno, node.col_offset, before, str(node.value + 1))


def between(
    lines: list[str], left: ast.expr, right: ast.expr, words: tuple[str, str] | None
) -> Iterator[Change]:
    """The operator that stands between two expressions of one line."""
    end = left.end_col_offset
    if words is None or end is None or left.end_lineno != right.lineno:
        return
    middle = lines[right.lineno - 1].encode()[end : right.col_offset].decode()
    if middle.count(words[0]) == 1:
        at = end + len(middle[: middle.index(words[0])].encode())
        yield Change(right.lineno, at, *words)


def changed(text: str, change: Change) -> str:
    """The text with the change made."""
    lines = text.splitlines(keepends=True)
    line = lines[change.line - 1].encode()
    end = change.begin + len(change.before.encode())
    lines[change.line - 1] = (line[: change.begin] + change.after.encode() + line[end:]).decode()
    return "".join(lines)


def passes(command: list[str], timeout_s: float) -> bool:
    """Whether the tests pass; those that hang do not."""
    # Python would take a change of the same length in the same second for no change.
    nowhere = os.path.join(tempfile.gettempdir(), f"mutate-{os.getpid()}")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": nowhere}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        sys.exit(f"mutate: cannot run {command[0]}: {error.strerror}")
    return done.returncode == 0


def main() -> int:
    """The exit code is 0 when every change was noticed, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the Python file to break")
    parser.add_argument("--most", type=int, default=60, help="changes to try (default 60)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a run (default 60)")
    parser.add_argument("command", nargs="+", help="what runs the tests, after --")
    options = parser.parse_args()
    try:
        text = options.file.read_text("utf-8")
        found = sorted(set(changes(text)))
    except (OSError, SyntaxError, ValueError) as error:
        sys.exit(f"mutate: cannot read {options.file} as Python: {error}")
    if not passes(options.command, options.timeout):
        sys.exit("mutate: the tests fail already without a change; mend that first")
    step = max(1, -(-len(found) // max(1, options.most)))
    tried, missed = found[::step], []
    try:
        for change in tried:
            options.file.write_text(changed(text, change), "utf-8")
            if passes(options.command, options.timeout):
                missed.append(change)
    finally:
        options.file.write_text(text, "utf-8")
    print(f"{len(tried) - len(missed)} of {len(tried)} changes were noticed by the tests")
    for change in missed:
        line = text.splitlines()[change.line - 1].strip()
        print(f"- {options.file}:{change.line}: {change.before} -> {change.after}: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
