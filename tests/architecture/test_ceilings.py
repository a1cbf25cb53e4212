"""Sizes have ceilings, for the product as for its tests; there is no allow list."""

import ast
from collections.abc import Iterator

from tests.architecture.source import (
    Function,
    Module,
    assert_clean,
    assert_refuses,
    product,
    sample,
    suite,
)

MODULE_LINES = 400
FAKE_LINES = 250
LOOP_LINES = 250
CLASS_LINES = 250
FUNCTION_LINES = 60
PARAMETERS = 7
NESTING = 4

BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


def ceiling(module: Module) -> int:
    """Return how many lines a module may have."""
    if module.path == "agent_service/turns/loop.py":
        return LOOP_LINES
    return FAKE_LINES if module.path.startswith("tests/fakes/") else MODULE_LINES


def long_modules(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > ceiling(module):
        yield module.at(None, f"{lines} lines, at most {ceiling(module)}")


def lines_of(node: Function | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def long_classes(module: Module) -> Iterator[str]:
    for node in module.find(ast.ClassDef):
        if lines_of(node) > CLASS_LINES:
            problem = f"class {node.name} has {lines_of(node)} lines, at most {CLASS_LINES}"
            yield module.at(node, problem)


def long_functions(module: Module) -> Iterator[str]:
    for node in module.functions():
        if lines_of(node) > FUNCTION_LINES:
            problem = f"{node.name} has {lines_of(node)} lines, at most {FUNCTION_LINES}"
            yield module.at(node, problem)


def many_parameters(module: Module) -> Iterator[str]:
    for node in module.functions():
        given = node.args
        names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names += [arg.arg for arg in (given.vararg, given.kwarg) if arg]
        if isinstance(module.parents[node], ast.ClassDef) and names[:1] in (["self"], ["cls"]):
            names = names[1:]
        if len(names) > PARAMETERS:
            yield module.at(node, f"{node.name} takes {len(names)}, at most {PARAMETERS}")


def deep_nesting(module: Module) -> Iterator[str]:
    """Blocks in blocks; an `elif` is on the level of its `if`, and a function is no block."""
    for node in module.find(*BLOCKS):
        level = sum(is_level(module, outer) for outer in (node, *module.around(node)))
        if level == NESTING + 1:
            yield module.at(node, f"nested {level} deep, at most {NESTING}")


def is_level(module: Module, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    if isinstance(node, ast.If) and isinstance(parent, ast.If):
        return not (parent.orelse == [node] and parent.col_offset == node.col_offset)
    return isinstance(node, BLOCKS)


def test_modules_are_short() -> None:
    assert_clean(long_modules, (*product(), *suite()))
    assert_refuses(long_modules, sample("x = 1\n" * 401))


def test_classes_are_short() -> None:
    assert_clean(long_classes, (*product(), *suite()))
    assert_refuses(long_classes, sample("class A:\n" + "    x = 1\n" * 250))


def test_functions_are_short() -> None:
    assert_clean(long_functions, (*product(), *suite()))
    assert_refuses(long_functions, sample("def f():\n" + "    x = 1\n" * 60))


def test_functions_take_few_parameters() -> None:
    assert_clean(many_parameters, (*product(), *suite()))
    assert_refuses(many_parameters, sample("def f(a, b, c, /, d, e, *f, g, **h): ..."))


def test_blocks_are_shallow() -> None:
    assert_clean(deep_nesting, (*product(), *suite()))
    assert_refuses(
        deep_nesting,
        sample("""
        async def f():
            async with a:
                for b in c:
                    if d:
                        pass
                    else:
                        try:
                            while e:
                                pass
                        finally:
                            pass
        """),
    )


def test_the_loop_is_one_page() -> None:
    functions = {
        f"{module.path}:{node.name}" for module in product() for node in module.functions()
    }
    assert "agent_service/turns/loop.py:run_turn" in functions
