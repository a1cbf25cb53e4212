"""A package has few rooms, each of a size that one can look over, and none leads back to itself."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from tests.architecture.source import PRODUCT, Module, product, sample

ROOMS = 14
MODULES = 24
ODD_NAMES = 1
LINES = 124_317
"""The goal is 115,000 with every platform, tool and protocol; what comes above it makes room."""

_ODD = re.compile(r"\w+(ing|ed)|told|said|kept|left|seen|given|meant|wanted")
"""Names that are no nouns."""
_NOUNS = {"billing", "caching", "logging", "pairing", "patching", "pricing", "routing", "tracing"}


def own(package: str, modules: Iterable[Module]) -> list[Module]:
    """Return the modules of a package, but for those that Alembic reads."""
    inside = (module for module in modules if module.path.startswith(f"{package}/"))
    return [module for module in inside if "/versions/" not in module.path]


def rooms(package: str, modules: Iterable[Module]) -> Mapping[str, set[str]]:
    """Return what stands at a package's root, and for each of them the others that it imports."""
    inside = own(package, modules)
    found = {module.path.split("/")[1].removesuffix(".py"): set[str]() for module in inside}
    found.pop("__init__", None)
    for module in inside:
        room = module.path.split("/")[1].removesuffix(".py")
        names = (name.split(".") for _, name in module.imports)
        others = {parts[1] for parts in names if parts[0] == package and len(parts) > 1}
        if room in found:
            found[room] |= others & found.keys() - {room}
    return found


def knot(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one cycle; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def folders(modules: Iterable[Module]) -> Counter[str]:
    """Return how many modules each folder has."""
    paths = (module.path for module in modules)
    return Counter(path.rpartition("/")[0] for path in paths if not path.endswith("__init__.py"))


def test_a_package_has_few_rooms() -> None:
    found = {package: rooms(package, product()) for package in PRODUCT}
    assert {name: len(each) for name, each in found.items() if len(each) > ROOMS} == {}
    assert {name: knot(each) for name, each in found.items() if knot(each)} == {}


def test_a_cycle_of_rooms_is_seen() -> None:
    there = sample("from services.b.y import z", "services/a/x.py")
    back = sample("import services.a.x", "services/b/y.py")
    assert set(knot(rooms("services", [there, back]))) == {"a", "b"}
    assert knot(rooms("services", [there])) == []


def test_folders_are_small() -> None:
    assert {folder: count for folder, count in folders(product()).items() if count > MODULES} == {}


def test_modules_are_named_by_nouns() -> None:
    names = (module.name.rpartition(".")[2] for module in product())
    odd = [name for name in names if _ODD.fullmatch(name) and name not in _NOUNS]
    assert len(odd) <= ODD_NAMES, odd


def test_the_product_is_small() -> None:
    kept = (module for package in PRODUCT for module in own(package, product()))
    assert sum(module.text.count("\n") for module in kept) <= LINES
