"""Bringing a config.yaml to the names that settings have now; comments and all else stay."""

import stat
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from services.clock import Clock
from services.config import Settings
from services.config_catalog import ConfigCatalog
from services.config_edit import dumped
from services.config_sources import parse_yaml, read_text
from services.home import HomePaths, replace_file


class Rename(Struct, frozen=True):
    """A setting that config.yaml has under another name than its first."""

    old: str
    new: str


def renames(settings: Settings, catalog: ConfigCatalog) -> Sequence[Rename]:
    """Which settings have an older name, of which no newer one takes the effect."""
    found: list[Rename] = []
    for declared in catalog.declared:
        chosen = settings.find_yaml(declared)
        if chosen is not None and chosen.key != declared.yaml[0]:
            found.append(Rename(chosen.key, declared.yaml[0]))
    return found


def migrate(home: HomePaths, wanted: Sequence[Rename], clock: Clock) -> str:
    """Rename them; the name of the copy that has the file as it was."""
    text = read_text(home.config)
    data = parse_yaml(text, home.config)
    for rename in wanted:
        old = rename.old.split(".")
        _put(data, rename.new.split("."), _taken(data, old))
        _tidy(data, old[:-1])
    mode = stat.S_IMODE(home.config.stat().st_mode)
    copy = home.config.with_name(f"{home.config.name}.bak.{clock.now():%Y%m%d-%H%M%S}")
    replace_file(copy, text, mode)
    replace_file(home.config, dumped(data, text), mode)
    return copy.name


def _taken(node: Any, path: Sequence[str]) -> Any:
    *groups, name = path
    for group in groups:
        node = node[group]
    return node.pop(name)


def _put(node: Any, path: Sequence[str], value: Any) -> None:
    *groups, name = path
    for group in groups:
        if node.get(group) is None:
            node[group] = {}
        node = node[group]
    node[name] = value


def _tidy(node: Any, groups: Sequence[str]) -> None:
    """Take groups out that have nothing any more."""
    if groups:
        _tidy(node[groups[0]], groups[1:])
        if not node[groups[0]]:
            del node[groups[0]]
