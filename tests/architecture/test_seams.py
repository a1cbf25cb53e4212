"""Seams are small Protocols beside their consumer, each with one suite for all implementations."""

import ast
from collections.abc import Iterable, Iterator

from tests.architecture.source import (
    Function,
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    product,
    sample,
    suite,
    within,
)

METHODS = 6
SEAMS = {
    "agent_service/records/model.py": "Model",
    "agent_service/tools/base.py": "Tool",
    "executor_service/backends/base.py": "Backend",
    "gateway_service/platforms/base.py": "Platform",
    "services/runtime/component.py": "Component",
}


def protocols(module: Module) -> Iterator[ast.ClassDef]:
    for node in module.find(ast.ClassDef):
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
        if any(dotted(base) in {"Protocol", "typing.Protocol"} for base in bases):
            yield node


def is_dunder(name: str) -> bool:
    """Whether a method belongs to Python's protocols, such as `async with`, and not to the seam."""
    return name.startswith("__") and name.endswith("__")


def large_seams(module: Module) -> Iterator[str]:
    for node in protocols(module):
        methods = [x for x in node.body if isinstance(x, Function) and not is_dunder(x.name)]
        if len(methods) > METHODS:
            yield module.at(node, f"{node.name} has {len(methods)} methods, at most {METHODS}")


def missing_seams(module: Module) -> Iterator[str]:
    expected = SEAMS.get(module.path)
    if expected and expected not in {node.name for node in protocols(module)}:
        yield module.at(None, f"the Protocol {expected} is not here")


def unproven_seams(contracts: Iterable[Module]) -> list[str]:
    """Return the seams of which no suite in tests/contract imports anything."""
    packages = {
        path.removesuffix("/base.py").replace("/", ".")
        for path in SEAMS
        if path.endswith("/base.py")
    }
    used = [name for module in contracts for _, name in module.imports]
    return sorted(seam for seam in packages if not any(within(name, seam) for name in used))


def test_seams_are_small() -> None:
    assert_clean(large_seams, product())
    methods = "".join(f"    async def m{number}(self): ...\n" for number in range(7))
    assert_refuses(large_seams, sample(f"class Model(Protocol):\n{methods}"))


def test_the_seams_are_where_one_looks() -> None:
    assert_clean(missing_seams, product())
    missing = sorted(set(SEAMS) - {module.path for module in product()})
    assert not missing
    assert_refuses(missing_seams, sample("class Model: ...", "agent_service/records/model.py"))


def test_each_seam_has_a_suite_for_all_its_implementations() -> None:
    contracts = [module for module in suite() if module.path.startswith("tests/contract/")]
    assert unproven_seams(contracts) == []
    assert len(unproven_seams([sample("from agent_service.records.model import Model")])) == 3
