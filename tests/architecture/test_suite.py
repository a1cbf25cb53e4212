"""Tests are real: they assert, they patch nothing, and what they leave out says why."""

import ast
from collections.abc import Iterator

from tests.architecture.source import (
    Function,
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    sample,
    suite,
    within,
)

PATCHES = (
    "unittest.mock",
    "mock",
    "pytest_mock",
    "responses",
    "respx",
    "aioresponses",
    "freezegun",
)
ENVIRONMENT_ONLY = {"setenv", "delenv"}
SKIPS = {"skip", "skipif", "importorskip", "xfail"}
SKIPPER = "tests/support/requirements.py"
"""The one place that knows which parts a machine lacks, and which must not be lacking."""

TEST = "tests/unit/test_sample.py"


def patches(module: Module) -> Iterator[str]:
    for node, name in module.imports:
        if within(name, *PATCHES):
            yield module.at(node, f"{name} replaces what should be real")
    patchers = {"monkeypatch", *monkeypatches(module)}
    for node in module.find(ast.Attribute):
        if dotted(node.value) in patchers and node.attr not in ENVIRONMENT_ONLY:
            yield module.at(node, f"{dotted(node)} patches more than the environment")
    for node in module.find(ast.arg):
        if node.arg == "mocker":
            yield module.at(node, "mocker replaces what should be real")


def monkeypatches(module: Module) -> Iterator[str]:
    """Yield what is annotated as, or made by, pytest's MonkeyPatch."""
    for node in module.find(ast.arg):
        if node.annotation and dotted(node.annotation).endswith("MonkeyPatch"):
            yield node.arg
    for node in module.find(ast.withitem, ast.Assign):
        value = node.context_expr if isinstance(node, ast.withitem) else node.value
        target = node.optional_vars if isinstance(node, ast.withitem) else node.targets[0]
        if isinstance(value, ast.Call) and "MonkeyPatch" in dotted(value.func) and target:
            yield dotted(target)


def is_test(module: Module, node: Function) -> bool:
    named = node.name.startswith("test_") and module.path.rpartition("/")[2].startswith("test_")
    return named and isinstance(module.parents[node], ast.Module | ast.ClassDef)


def asserts(function: Function) -> bool:
    """Whether a function can fail on purpose: itself, or by a helper named for it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = dotted(node.func).rpartition(".")[2]
            if name in {"raises", "fail", "warns"} or name.startswith(
                ("assert_", "check_", "expect")
            ):
                return True
    return False


def idle_tests(module: Module) -> Iterator[str]:
    for node in module.functions():
        if is_test(module, node) and not asserts(node):
            yield module.at(node, f"{node.name} asserts nothing")


def quiet_skips(module: Module) -> Iterator[str]:
    """What a machine lacks is skipped in one place, so that CI can insist on all of it."""
    if module.path == SKIPPER:
        return
    for node in module.find(ast.Attribute):
        if node.attr in SKIPS and dotted(node.value) in {"pytest", "pytest.mark"}:
            yield module.at(node, f"{dotted(node)} belongs in {SKIPPER}")


def test_nothing_is_patched() -> None:
    assert_clean(patches, suite())
    assert_refuses(patches, sample("from unittest import mock", TEST))


def test_each_test_asserts() -> None:
    assert_clean(idle_tests, suite())
    assert_refuses(idle_tests, sample("def test_a():\n    f()", TEST))


def test_skips_are_in_one_place() -> None:
    assert_clean(quiet_skips, suite())
    assert_refuses(
        quiet_skips, sample("@pytest.mark.skipif(True, reason='')\ndef test_a(): ...", TEST)
    )
