"""Everything that can be configured, for `hermes config`, the checks and the documentation."""

from collections.abc import Iterable
from typing import Literal, get_args, get_origin

from msgspec import Struct

from services.config import FILE_SUFFIX, Settings
from services.config_fields import (
    ConfigModel,
    Declared,
    declared_fields,
    holds_mapping,
    value_text,
)
from services.config_paths import KnownPaths


class Shown(Struct, frozen=True):
    """A setting as it is in effect."""

    setting: Declared
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
        return [_shown(declared, settings) for declared in self.declared]


def _is_choice_of(declared: Declared | None, value: object) -> bool:
    if declared is None or get_origin(declared.annotation) is not Literal:
        return False
    return value in get_args(declared.annotation)


def _shown(setting: Declared, settings: Settings) -> Shown:
    found = settings.find(setting)
    if found is None:
        return Shown(setting, setting.default, "default")
    value = "(set, not shown)" if setting.secret else value_text(found.value)
    return Shown(setting, value, f"{found.key}, {found.where}")
