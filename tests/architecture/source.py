"""The repository's Python source, parsed once and shared by all checks.

A check is a function from a module to the places where the module breaks a rule, as
`path:line: what is wrong`. Each has a test that holds the repository to it and one that shows it a
sample that it must refuse, so that no check can pass because it sees nothing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias, TypeVar

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("agent_service", "executor_service", "gateway_service", "scheduler_service")
PRODUCT = ("services", *SERVICES)

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Check: TypeAlias = "Callable[[Module], Iterator[str]]"
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Module:
    """One source file: its path from the repository's root, its text, and its syntax tree."""

    path: str
    text: str

    @property
    def name(self) -> str:
        """The dotted name by which it is imported."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The dotted name that its relative imports start from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path, feature_version=(3, 11))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in (self.tree, *self.parents):
            nodes[type(node)].append(node)
        return nodes

    def find(self, *kinds: type[Node]) -> Iterator[Node]:
        """Yield all nodes of these kinds, kind by kind."""
        for kind in kinds:
            for node in self._nodes.get(kind, ()):
                assert isinstance(node, kind)
                yield node

    def functions(self) -> Iterator[Function]:
        """Yield all functions and methods."""
        yield from self.find(ast.FunctionDef)
        yield from self.find(ast.AsyncFunctionDef)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that enclose a node, from the innermost to the module."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def in_function(self, node: ast.AST) -> bool:
        """Whether a node belongs to a function's body or signature."""
        return any(isinstance(outer, Function | ast.Lambda) for outer in self.around(node))

    @cached_property
    def imports(self) -> tuple[tuple[ast.Import | ast.ImportFrom, str], ...]:
        """Each imported thing as its statement and full dotted name, relative ones resolved."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
        for node in self.find(ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        for node in self.find(ast.ImportFrom):
            base = self.package.split(".")[: -node.level + 1 or None] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node, f"{source}.{alias.name}") for alias in node.names)

    def at(self, node: ast.AST | None, problem: str) -> str:
        """Say where a problem is."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {problem}"


PROGRAMS = ROOT / "agent_service/profiles/skills/bundled"
"""Its scripts are not imported: they run in sandboxes, each for itself."""


@cache
def _parsed(*folders: str) -> tuple[Module, ...]:
    found = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    files = sorted(file for file in found if not file.is_relative_to(PROGRAMS))
    return tuple(Module(f.relative_to(ROOT).as_posix(), f.read_text("utf-8")) for f in files)


def product() -> tuple[Module, ...]:
    """Return the modules that are shipped; generated code is not among them."""
    return _parsed(*PRODUCT)


def suite() -> tuple[Module, ...]:
    """Return the modules of the tests."""
    return _parsed("tests")


def sample(text: str, path: str = "agent_service/sample.py") -> Module:
    """Return a made-up module."""
    return Module(path, dedent(text))


def within(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of these modules or packages, or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def dotted(node: ast.AST) -> str:
    """Return a chain of names such as `asyncio.create_task`, with `?` for what is not a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return "?"


def assert_clean(check: Check, modules: Iterable[Module]) -> None:
    """Fail with every place where a module breaks the rule."""
    found = [place for module in modules for place in check(module)]
    if found:
        pytest.fail("\n".join([f"{len(found)} found:", *found]), pytrace=False)


def assert_refuses(check: Check, *modules: Module) -> None:
    """Fail for each sample in which the check sees nothing wrong."""
    for module in modules:
        assert list(check(module)), f"nothing seen in:\n{module.text}"
