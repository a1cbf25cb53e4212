"""Everything that can be configured, for `hermes config`, the checks and the documentation."""

from collections.abc import Iterable

from msgspec import Struct

from services.config import FILE_SUFFIX, Settings
from services.config_fields import (
    ConfigModel,
    Declared,
    declared_fields,
    value_text,
)
from services.config_paths import YamlPath, nearest, places


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
        self.root = places(self.declared)
        self.variables: dict[str, Declared] = {
            name: declared
            for declared in reversed(self.declared)
            for variable in declared.env
            for name in (variable, variable + FILE_SUFFIX)[: 1 + declared.secret]
        }

    def nearest(self, path: YamlPath, also: Iterable[str] = ()) -> str | None:
        """The known path, or beginning of one, that looks most like `path`."""
        known = {".".join(one) for one in self.root.paths(path)} - {""}
        return nearest(".".join(path), {*known, *also})

    def instead_of(self, section: str, value: object) -> str:
        """What is wrong with a plain value where a section belongs; empty where none belongs."""
        path = tuple(section.split("."))
        place = self.root.find(path)
        inside = dict(sorted(place.settings(path))) if place else {}
        if not inside:
            return ""
        keys = [".".join(one) for one in inside]
        taking = (key for key, it in zip(keys, inside.values(), strict=True) if it.offers(value))
        meant = next((f", such as `{key}: {value}`" for key in taking), "")
        return f"is a section and takes no value itself; set {' or '.join(keys)}{meant}"

    def show(self, settings: Settings) -> list[Shown]:
        """Each setting's value and what set it."""
        return [_shown(declared, settings) for declared in self.declared]


def _shown(setting: Declared, settings: Settings) -> Shown:
    found = settings.find(setting)
    if found is None:
        return Shown(setting, setting.default, "default")
    value = "(set, not shown)" if setting.secret else value_text(found.value)
    return Shown(setting, value, f"{found.key}, {found.where}")
