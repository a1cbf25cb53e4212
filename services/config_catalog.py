"""Everything that can be configured, for `hermes config`, the checks and the documentation."""

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise
from typing import Literal, cast, get_args, get_origin

from msgspec import Struct
from pydantic.fields import FieldInfo

from services.config import FILE_SUFFIX, Settings
from services.config_fields import (
    ConfigModel,
    Declared,
    TypeName,
    declared_fields,
    holds_mapping,
    type_text,
)
from services.config_paths import KnownPaths

_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


class Entry(Struct, frozen=True):
    """One setting."""

    key: str
    yaml: tuple[str, ...]
    env: tuple[str, ...]
    option: str
    """The command line option; empty when there is none."""
    type: str
    default: str
    """Empty when there is none, or when it depends on the machine."""
    meaning: str
    """What it does and its unit."""
    secret: bool


class Shown(Struct, frozen=True):
    """A setting as it is in effect."""

    entry: Entry
    value: str
    """Never that of a secret."""
    where: str
    """What set it, or `default`."""


class ConfigCatalog:
    """The settings of a number of models, to be listed and looked up by name."""

    def __init__(self, models: Iterable[type[ConfigModel]]) -> None:
        self.models = tuple(models)
        self.declared = tuple(d for model in self.models for d in declared_fields(model))
        self.paths = KnownPaths(self.declared)
        self.variables: frozenset[str] = frozenset(
            name
            for declared in self.declared
            for variable in declared.env
            for name in (variable, variable + FILE_SUFFIX)[: 1 + declared.secret]
        )

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Each setting; made when it is asked for, since it reads the models' source."""
        return tuple(map(_entry, self.declared))

    def declared_at(self, key: str) -> Declared | None:
        """The field that a variable or a path in config.yaml sets, or is a part of."""
        for declared in self.declared:
            if key in declared.env or key in declared.yaml:
                return declared
        above = [d for d in self.declared if any(key.startswith(f"{p}.") for p in d.yaml)]
        return next((d for d in above if holds_mapping(d.annotation)), None)

    def instead_of(self, section: str, value: object) -> str:
        """What is wrong with a plain value where a section belongs; empty where none belongs."""
        keys = self.paths.inside(tuple(section.split(".")))
        if not keys:
            return ""
        taking = (key for key in keys if _is_choice_of(self.declared_at(key), value))
        meant = next((f", such as `{key}: {value}`" for key in taking), "")
        return f"is a section and takes no value itself; set {' or '.join(keys)}{meant}"

    def show(self, settings: Settings) -> list[Shown]:
        """Each setting's value and what set it."""
        return [_shown(e, d, settings) for e, d in zip(self.entries, self.declared, strict=True)]


def _is_choice_of(declared: Declared | None, value: object) -> bool:
    if declared is None or get_origin(declared.annotation) is not Literal:
        return False
    return value in get_args(declared.annotation)


def _entry(declared: Declared) -> Entry:
    return Entry(
        key=declared.key,
        yaml=declared.yaml,
        env=declared.env,
        option=declared.flag.option if declared.flag else "",
        type=_type_text(declared.info),
        default=_default_text(declared.info),
        meaning=" ".join(_meanings(declared.model)[declared.location[-1]].split()),
        secret=declared.secret,
    )


def _meanings(model: type[ConfigModel]) -> Mapping[str, str]:
    """The docstring under each field of a model."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model)))
    assert isinstance(tree.body[0], ast.ClassDef)
    return {
        field.target.id: text.value.value
        for field, text in pairwise(tree.body[0].body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _type_text(info: FieldInfo) -> str:
    named = next((m.text for m in info.metadata if isinstance(m, TypeName)), None)
    limits = [
        f"{words} {getattr(m, name)}"
        for m in info.metadata
        for name, words in _LIMITS.items()
        if getattr(m, name, None) is not None
    ]
    return ", ".join([named or type_text(info.annotation), *limits])


def _shown(entry: Entry, declared: Declared, settings: Settings) -> Shown:
    found = settings.find(declared)
    if found is None:
        return Shown(entry, entry.default, "default")
    value = "(set, not shown)" if entry.secret else _text(found.value)
    return Shown(entry, value, f"{found.key}, {found.where}")


def _default_text(info: FieldInfo) -> str:
    if info.is_required() or info.default_factory is not None:
        return ""
    return _text(info.default)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_text, cast("list[object]", value)))
    return str(value)
