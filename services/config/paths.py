"""The valid paths of config.yaml, from the types of their fields."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args

from msgspec import Struct, field
from pydantic import BaseModel

from services.config.fields import Declared, KeyNames, origin_of, without_none

YamlPath = tuple[str, ...]

_ANY_NAME = "*"


class SettingPlace(Struct):
    """A place in config.yaml: a setting, a part of one, or a section."""

    setting: Declared | None = None
    """The setting that it is or belongs to; None for a mere section."""
    annotation: Any = None
    inside: dict[str, "SettingPlace"] = field(default_factory=dict[str, "SettingPlace"])

    def find(self, path: Iterable[str]) -> "SettingPlace | None":
        """Return the place at a relative path; None if it is unknown."""
        place: SettingPlace | None = self
        for name in path:
            if place is None or place.annotation is Any:
                return place
            place = place.inside.get(name) or place.inside.get(_ANY_NAME)
        return place

    def unknown(self, data: Mapping[object, object], above: YamlPath = ()) -> Iterator[YamlPath]:
        """Yield each highest unknown path in `data`."""
        for key, value in data.items():
            place, path = self.find([str(key)]), (*above, str(key))
            if place is not None and place.inside and isinstance(value, Mapping):
                yield from place.unknown(cast("Mapping[object, object]", value), path)
            elif place is None or (place.setting is None and value not in (None, "")):
                yield path

    def paths(self, above: YamlPath = ()) -> Iterator[YamlPath]:
        for name, place in self.inside.items():
            if name != _ANY_NAME:
                yield (*above, name)
                yield from place.paths((*above, name))


def places(declared: Iterable[Declared]) -> SettingPlace:
    """Build the tree of config.yaml."""
    root = SettingPlace()
    for setting in declared:
        for path in setting.yaml:
            place = root
            for name in path.split("."):
                place = place.inside.setdefault(name, SettingPlace())
            _fill(place, setting, setting.info.annotation)
    return root


def _fill(place: SettingPlace, setting: Declared, annotation: Any) -> None:
    place.setting, place.annotation = place.setting or setting, without_none(annotation)
    origin = origin_of(annotation)
    parts: dict[str, Any] = {}
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        parts = dict.fromkeys(getattr(origin, "also_read", ()), Any)
        parts |= {name: info.annotation for name, info in origin.model_fields.items()}
        if origin.model_config.get("extra") == "allow":
            parts[_ANY_NAME] = Any
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = get_args(place.annotation) or (Any, Any)
        known = next((one.names for one in get_args(key) if isinstance(one, KeyNames)), None)
        parts = dict.fromkeys(known or (_ANY_NAME,), value)
    for name, part in parts.items():
        _fill(place.inside.setdefault(name, SettingPlace()), setting, part)


def nearest(name: str, known: Iterable[str], likeness: float = 0.65) -> str | None:
    """Return the most similar known name, if one is close."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=likeness)), None)


def suggestion(name: str | None) -> str:
    """Return the end of a message about an unknown name."""
    return f"; did you mean {name}?" if name else ""
