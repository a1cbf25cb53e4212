"""State is held by objects that somebody constructs: no globals, no singletons, no environment."""

import ast
from collections.abc import Iterator

from services.config.fields import declared_fields
from tests.architecture.source import (
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    product,
    sample,
    suite,
)
from tests.unit.services.test_config_docs import all_models

CONFIG = "services/config/settings.py"
DECODING = "services/validation.py"
BOX = "executor_service/supervisor/main.py"
"""Hands the box's own environment to the commands in the box, and knows no configuration."""

ENVIRONMENT = {f"os.{name}" for name in ("environ", "environb", "getenv", "getenvb", "putenv")}
CHANGES = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}


def environment(module: Module) -> Iterator[str]:
    if module.path in {CONFIG, BOX}:
        return
    for node in module.find(ast.Attribute):
        if dotted(node) in ENVIRONMENT:
            yield module.at(node, f"{dotted(node)} is read in {CONFIG} only")
    for node, name in module.imports:
        if name in ENVIRONMENT:
            yield module.at(node, f"{name} is read in {CONFIG} only")


def typed_reading(module: Module) -> Iterator[str]:
    """Whoever first meets a type in two threads crashes, so all read by functions of ours."""
    named = {name for _, name in module.imports}
    for node in module.find(ast.Call):
        called = dotted(node.func)
        if module.path != DECODING and (
            called in {"msgspec.convert", "msgspec.json.Decoder", "json.Decoder"}
            or (called == "convert" and "msgspec.convert" in named)
            or (called.endswith("json.decode") and (len(node.args) > 1 or node.keywords))
        ):
            yield module.at(node, f"types are read in {DECODING} only")


def global_statements(module: Module) -> Iterator[str]:
    for node in module.find(ast.Global):
        yield module.at(node, f"global {', '.join(node.names)}")


def changed_tables(module: Module) -> Iterator[str]:
    """A function that changes a value of its module has made a singleton of it."""
    shared = {
        name.id
        for name in module.find(ast.Name)
        if isinstance(name.ctx, ast.Store) and not enclosed(module, name)
    }
    for node, owner in changes(module):
        local = {name.id for function in functions_around(module, node) for name in bound(function)}
        if owner in shared - local and module.in_function(node):
            yield module.at(node, f"a function changes {owner}, which belongs to the module")


def enclosed(module: Module, node: ast.AST) -> bool:
    scopes = (ast.ClassDef, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
    return module.in_function(node) or any(isinstance(x, scopes) for x in module.around(node))


def changes(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each `name.append(…)`, `name[…] = …`, `name.attribute = …` or `del` of such."""
    for node in module.find(ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield node, dotted(node.func.value)
    for node in module.find(ast.Subscript, ast.Attribute):
        if isinstance(node.ctx, ast.Store | ast.Del):
            yield node, dotted(node.value)


def functions_around(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return (outer for outer in module.around(node) if isinstance(outer, kinds))


def bound(function: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that a function binds: parameters, assignments, loops."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node
        elif isinstance(node, ast.arg):
            yield ast.Name(node.arg)


def cached_singletons(module: Module) -> Iterator[str]:
    for node in module.functions():
        names = {
            dotted(mark.func if isinstance(mark, ast.Call) else mark)
            for mark in node.decorator_list
        }
        cached = {name.rpartition(".")[2] for name in names} & {"cache", "lru_cache"}
        if cached and not ast.unparse(node.args):
            yield module.at(node, f"{node.name} caches one object for the process")


def slow_records(module: Module) -> Iterator[str]:
    """A dataclass takes half a millisecond to make, and every start makes four hundred records."""
    for node in module.find(ast.ClassDef):
        if any("dataclass" in ast.unparse(mark) for mark in node.decorator_list):
            yield module.at(node, f"{node.name} is a dataclass: records are a msgspec.Struct")
        if any(option.arg == "dict" for option in node.keywords):
            yield module.at(node, f"{node.name} takes any attribute")


def test_only_the_configuration_reads_the_environment() -> None:
    assert_clean(environment, product())
    assert_refuses(environment, sample("import os\nhome = os.environ['HOME']"))


def test_types_are_met_in_turn() -> None:
    assert_clean(typed_reading, product())
    assert_refuses(typed_reading, sample("import msgspec\nmsgspec.convert({}, int)"))


def test_nothing_is_global() -> None:
    assert_clean(global_statements, (*product(), *suite()))
    assert_refuses(global_statements, sample("def f():\n    global x\n    x = 1"))


def test_tables_are_constant() -> None:
    assert_clean(changed_tables, product())
    assert_refuses(changed_tables, sample("TABLE = {}\ndef f():\n    TABLE['a'] = 1"))


def test_no_object_is_kept_by_a_function() -> None:
    assert_clean(cached_singletons, product())
    assert_refuses(cached_singletons, sample("@cache\ndef get_client():\n    return Client()"))


def test_records_are_structs_with_slots() -> None:
    assert_clean(slow_records, product())
    assert_refuses(slow_records, sample("@dataclass\nclass A: ..."))


def test_every_setting_is_read() -> None:
    read = {node.attr for module in product() for node in module.find(ast.Attribute)}
    fields = (field for model in all_models() for field in declared_fields(model))
    assert [field.key for field in fields if field.location[-1] not in read] == []
