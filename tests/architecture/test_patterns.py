"""Regular expressions match the same with every Python that Hermes runs on."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.source import Module, assert_clean, assert_refuses, product

QUANTIFIER = r"(?:[*+?]|\{\d+,?\d*\})\+"


def possessive_groups(module: Module) -> Iterator[str]:
    """Find `(…)*+`, which matches too little before Python 3.11.5; `(?>(…)*)` does not."""
    for node in module.find(ast.Constant):
        text, parent = node.value, module.parents[node]
        if not isinstance(text, str):
            continue
        follows = isinstance(parent, ast.JoinedStr) and parent.values[0] is not node
        before = rf"(?:\)|{'^' if follows else '$.'})"
        if re.search(f"{before}{QUANTIFIER}", text):
            yield module.at(node, "write `(?>(…)*)` in place of `(…)*+`")


def test_no_group_is_possessive() -> None:
    assert_clean(possessive_groups, product())
    assert_refuses(possessive_groups, Module("a.py", 'A = r"(?:[^@]*@)?+x"'))
