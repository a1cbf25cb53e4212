"""Which paths a config.yaml may have, going by the types of the fields that they set."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args

from pydantic import BaseModel

from services.config_fields import Declared, origin_of, without_none

YamlPath = tuple[str, ...]

_ANY_NAME = "*"
_ANYTHING = "**"


class KnownPaths:
    """The paths in config.yaml that somebody reads."""

    def __init__(self, declared: Iterable[Declared]) -> None:
        self._patterns = frozenset(
            pattern
            for field in declared
            for path in field.yaml
            for pattern in _patterns(field.info.annotation, tuple(path.split(".")))
        )

    def __contains__(self, path: YamlPath) -> bool:
        return any(_matches(pattern, path) for pattern in self._patterns)

    def unknown(self, data: Mapping[object, object]) -> Iterator[YamlPath]:
        """Each highest path in `data` that nobody reads."""
        return _unknown(data, (), self._patterns)

    def inside(self, path: YamlPath) -> tuple[str, ...]:
        """The settings in the section at `path`, by their full paths; none where it is none."""
        depth = len(path)
        tails = [p[depth:] for p in self._patterns if len(p) > depth and _matches(p[:depth], path)]
        named = [tail for tail in tails if not {_ANY_NAME, _ANYTHING} & {*tail}]
        return tuple(sorted(".".join((*path, *tail)) for tail in named))

    def nearest(self, path: YamlPath, also: Iterable[str] = ()) -> str | None:
        """The known path, or beginning of one, that looks most like `path`."""
        known = {*also}
        for pattern in self._patterns:
            named = [
                path[i] if part == _ANY_NAME and i < len(path) else part
                for i, part in enumerate(pattern)
                if part != _ANYTHING
            ]
            known.update(".".join(named[:end]) for end in range(1, len(named) + 1))
        return nearest(".".join(path), known)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, if one does."""
    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.6)), None)


def suggestion(name: str | None) -> str:
    """The end of a message about an unknown name."""
    return f"; did you mean {name}?" if name else ""


def _unknown(
    data: Mapping[object, object], above: YamlPath, patterns: Iterable[YamlPath]
) -> Iterator[YamlPath]:
    for key, value in data.items():
        path = (*above, str(key))
        if any(pattern[0] == _ANYTHING for pattern in patterns):
            continue
        tails = {pattern[1:] for pattern in patterns if pattern[0] in (_ANY_NAME, str(key))}
        deeper = tails - {()}
        if deeper and isinstance(value, Mapping):
            yield from _unknown(cast("Mapping[object, object]", value), path, deeper)
        elif () not in tails and not (deeper and value in (None, "")):
            yield path


def _patterns(annotation: Any, path: YamlPath) -> Iterator[YamlPath]:
    """The paths that a value of this type can have inside, beginning with its own."""
    annotation = without_none(annotation)
    origin = origin_of(annotation)
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        for name, info in origin.model_fields.items():
            yield from _patterns(info.annotation, (*path, name))
        if origin.model_config.get("extra") == "allow":
            yield (*path, _ANYTHING)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        values = get_args(annotation)[1:]
        inside = origin_of(values[0]) if values else None
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            yield from _patterns(inside, (*path, _ANY_NAME))
        else:
            yield (*path, _ANYTHING)
    else:
        yield path


def _matches(pattern: YamlPath, path: YamlPath) -> bool:
    if pattern[-1] == _ANYTHING:
        pattern = pattern[:-1]
        if len(path) <= len(pattern):
            return False
        path = path[: len(pattern)]
    return len(pattern) == len(path) and all(
        part in (_ANY_NAME, name) for part, name in zip(pattern, path, strict=True)
    )
