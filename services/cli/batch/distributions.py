"""Distributions: how likely an item of a batch has each toolset."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

from msgspec import Struct, ValidationError

from services.config.paths import nearest, suggestion
from services.config.sources import plain, read_yaml
from services.errors import InvalidArgument
from services.home.paths import HomePaths
from services.validation import convert

DEFAULT = "default"
_BUNDLED = Path(__file__).with_name("distributions.yaml")


class Distribution(Struct, frozen=True):
    """Toolsets, each with its chance."""

    name: str
    chances: Mapping[str, float]
    """In percent, by toolset."""

    def sample(self, seed: int, item_id: str) -> list[str]:
        """Return an item's toolsets: each by its chance, or the likeliest if none comes."""
        dice = Random(f"{seed}:{item_id}")  # noqa: S311 - keeps no secret
        sampled = [name for name, chance in self.chances.items() if 100 * dice.random() < chance]
        return sampled or [max(self.chances, key=lambda name: self.chances[name])]


def list_distributions(home: HomePaths) -> Sequence[Distribution]:
    """Return the bundled distributions and the home's, which come first, by name."""
    found = _read(_BUNDLED) | _read(home.distributions)
    return [found[name] for name in sorted(found)]


def find_distribution(home: HomePaths, name: str) -> Distribution:
    """Return a distribution; InvalidArgument suggests the nearest name."""
    known = {each.name: each for each in list_distributions(home)}
    if name not in known:
        similar = suggestion(nearest(name, known)) or f"; there are {', '.join(known)}"
        raise InvalidArgument(f"there is no distribution {name}{similar}")
    return known[name]


def _read(path: Path) -> dict[str, Distribution]:
    file = read_yaml(path, {})
    data: dict[str, Any] = plain(file.data)
    found = dict[str, Distribution]()
    for name, value in data.items():
        if not re.fullmatch(r"[\w.:-]{1,64}", name) or not _are_chances(value):
            raise InvalidArgument(
                f"{file.where([name])}: {name!r} must be a name without spaces, followed by "
                "toolsets with chances above 0 and up to 100: {terminal: 95, web: 40}"
            )
        found[name] = Distribution(name, value)
    return found


def _are_chances(value: object) -> TypeGuard[Mapping[str, float]]:
    try:
        chances = convert(value, dict[str, float])
    except ValidationError:
        return False
    return bool(chances) and all(0 < chance <= 100 for chance in chances.values())
