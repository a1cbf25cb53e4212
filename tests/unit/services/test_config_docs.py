"""The reference in docs/configuration.md is what the models say.

`python -m tests.unit.services.test_config_docs` writes it anew.
"""

import ast
import inspect
import textwrap
import types
from functools import cache
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from services.cli.main import COMMANDS, parser_of
from services.config.catalog import ConfigCatalog
from services.config.fields import Declared, TypeName, holds_many, holds_mapping, without_none
from services.config.settings import ConfigModel
from services.runtime import config
from tests.unit.docs_reference import actions_of

ROOT = Path(__file__).parents[3]
SERVICES = ("agent", "executor", "gateway", "scheduler")
DOCUMENT = ROOT / "docs" / "configuration.md"
BEGIN = "<!-- The tables below are made from the models. -->"
END = "<!-- End of the tables. -->"
LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
HEAD = "| Setting | Environment, option | Value | Default | Meaning |\n|---|---|---|---|---|"


def all_models() -> list[type[ConfigModel]]:
    models = list(config.MODELS)
    for service in SERVICES:
        models.extend(import_module(f"{service}_service.config").MODELS)
    return models


def tables(models: list[type[ConfigModel]]) -> str:
    """The settings of each group of config.yaml as a table."""
    entries = sorted(ConfigCatalog(models).declared, key=group)
    return "\n\n".join(
        "\n".join([f"### {name}", "", HEAD, *dict.fromkeys(map(row, members))])
        for name, members in groupby(entries, key=group)
    )


def group(entry: Declared) -> str:
    return f"`{entry.yaml[0].split('.')[0]}`" if entry.yaml else "Environment only"


def row(entry: Declared) -> str:
    ways = [*entry.env, entry.option] if entry.option in options() else entry.env
    cells = (
        code(*entry.yaml),
        code(*ways),
        described_type(entry).replace("|", "\\|"),
        code(entry.default),
    )
    return f"| {' | '.join(cells)} | {meaning(entry)} |"


def described_type(entry: Declared) -> str:
    """The type and its limits."""
    named = (m.text for m in entry.info.metadata if isinstance(m, TypeName))
    limits = (
        f"{words} {getattr(m, name)}"
        for m in entry.info.metadata
        for name, words in LIMITS.items()
        if getattr(m, name, None) is not None
    )
    return ", ".join([next(named, "") or type_text(entry.info.annotation), *limits])


def type_text(annotation: Any) -> str:
    """Describe the type for the documentation."""
    annotation = without_none(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        named = next((m.text for m in metadata if isinstance(m, TypeName)), None)
        return named or type_text(inner)
    if origin is Literal:
        return " | ".join(str(value) for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(type_text(part) for part in get_args(annotation))
    if holds_many(annotation):
        items = [arg for arg in get_args(annotation) if arg is not Ellipsis]
        return f"list of {type_text(items[0])}" if items else "list"
    if holds_mapping(annotation):
        return "mapping"
    names = {
        str: "text",
        int: "integer",
        float: "number",
        bool: "true or false",
        SecretStr: "secret",
    }
    return names.get(annotation) or str(getattr(annotation, "__name__", annotation)).lower()


def meaning(entry: Declared) -> str:
    """The docstring under the field: its meaning and unit."""
    return meanings(entry.model)[entry.location[-1]]


@cache
def meanings(model: type[ConfigModel]) -> dict[str, str]:
    """Return what the docstrings say of a model's fields, also of those that it inherits."""
    (parent,) = model.__bases__
    inherited = dict[str, str]() if model is ConfigModel else meanings(parent)
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    assert isinstance(tree.body[0], ast.ClassDef)
    return inherited | {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(tree.body[0].body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


@cache
def options() -> frozenset[str]:
    """The options that commands have; some settings are passed on by commands without one."""
    parsers = map(parser_of, COMMANDS)
    actions = (action for parser in parsers for action in actions_of(parser))
    return frozenset(option for action in actions for option in action.option_strings)


def code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def with_tables(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(all_models())}\n\n{END}{after}"


def test_the_reference_is_what_the_models_say() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_tables(document), f"run python -m {__name__}"


def test_every_setting_is_explained() -> None:
    silent = [entry.key for entry in ConfigCatalog(all_models()).declared if not meaning(entry)]
    assert not silent


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
