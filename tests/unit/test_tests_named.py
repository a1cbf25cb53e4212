"""The tests that the documentation names are there."""

import ast
import re
from collections.abc import Iterator

from tests.markdown import ROOT, pages

TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def named() -> Iterator[tuple[str, str, str]]:
    """Page, file and function."""
    for each in pages():
        for file, function in TEST.findall(each.text):
            yield each.name, file, function


def functions_of(file: str) -> set[str]:
    """The tests of a file."""
    path = ROOT / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    return {each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_named_tests_are_there() -> None:
    found = list(named())
    assert len(found) > 20
    assert [one for one in found if one[2] not in functions_of(one[1])] == []
