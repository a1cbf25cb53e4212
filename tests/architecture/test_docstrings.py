"""What is public says in one sentence what it is."""

import ast
from collections.abc import Iterator

from tests.architecture.source import (
    Function,
    Module,
    assert_clean,
    assert_refuses,
    product,
    sample,
)
from tests.architecture.test_seams import SEAMS, protocols


def public(module: Module) -> Iterator[tuple[Function | ast.ClassDef | ast.Module, str]]:
    """Yield a module that has content, its public classes and functions, and its seam's methods."""
    if module.tree.body:
        yield module.tree, "the module"
    seams = (node for node in protocols(module) if node.name == SEAMS.get(module.path))
    owners = (module.tree, *seams)
    for node in (child for owner in owners for child in owner.body):
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node, node.name


def silent(module: Module) -> Iterator[str]:
    for node, name in public(module):
        summary = (ast.get_docstring(node) or "").partition("\n\n")[0].strip()
        if not summary:
            yield module.at(node, f"{name} has no docstring")
        elif not summary.endswith("."):
            yield module.at(node, f"the docstring of {name} does not begin with a sentence")


def test_what_is_public_is_documented() -> None:
    assert_clean(silent, product())
    assert_refuses(silent, sample("x = 1"))
