"""The table of what each backend can do, made from what its probe has found.

`python -m tests.capability_table` writes it anew, by trying every backend on this machine: all that
continuous integration has must be here.
"""

import asyncio

from executor_service.backends.base import Enforcement, Isolation, WorkspacePlace
from executor_service.backends.stores import store_elsewhere
from tests.boxes import BACKENDS, Yard, open_yard
from tests.markdown import ROOT
from tests.users import users_folder

PAGE = ROOT / "docs/backends/README.md"
BEGIN, END = "<!-- made from what the backends say: capabilities -->", "<!-- end -->"

_HEADINGS = (
    *("backend", "isolation", "terminal", "memory", "processors", "processes", "/tmp"),
    *("workspace quota", "workspace", "its copies", "network"),
)
_LIMITS = range(3, 8)
_NOT_HELD = "no"
_ISOLATION = {
    Isolation.NONE: "none",
    Isolation.NAMESPACE: "namespaces of the kernel",
    Isolation.USERSPACE_KERNEL: "a kernel in user space",
    Isolation.MICROVM: "a virtual machine",
}
_HELD = {
    Enforcement.ENFORCED: "yes",
    Enforcement.WATCHED: "watched",
    Enforcement.NONE: _NOT_HELD,
}
_PLACES = {
    WorkspacePlace.HERE: "a folder of the executor's machine",
    WorkspacePlace.THERE: "kept where the sandbox is",
    WorkspacePlace.IN_BOX: "ends with the sandbox",
}

_LABELS = {"gvisor": "docker with gVisor"}
"""A backend that can be set up in two ways has two rows."""

Row = tuple[str, ...]


def row(name: str, yard: Yard) -> Row:
    """What the table says of a backend."""
    found = yard.capabilities
    limits, is_here = found.limits, found.workspaces is WorkspacePlace.HERE
    # The executor itself looks at folders of its own machine, and where it costs little to ask.
    is_watched = is_here or found.measures_workspaces
    quota = Enforcement.WATCHED if is_watched else Enforcement.NONE
    quota = quota if limits.workspace is Enforcement.NONE else limits.workspace
    copies = is_here or store_elsewhere(yard.backend) is not None
    return (
        label(name),
        _ISOLATION[found.isolation],
        "yes" if found.pty else _NOT_HELD,
        *(_HELD[held] for held in (limits.memory, limits.cpu, limits.pids, limits.tmp, quota)),
        _PLACES[found.workspaces],
        "yes" if copies else _NOT_HELD,
        ", ".join(policy.replace("_", " ") for policy in found.network_policies)
        or "that of its machine",
    )


def label(name: str) -> str:
    """What the table calls a backend."""
    return _LABELS.get(name, name)


def documented() -> dict[str, Row]:
    """What the page says, by backend."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = [line for line in rest.partition(END)[0].splitlines() if line.startswith("| ")]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[1:]]
    return {cells[0]: cells for cells in rows}


def is_no_better(found: Row, said: Row) -> bool:
    """Whether all is as it is said, but for limits that this machine cannot hold."""
    return all(
        mine == theirs or (number in _LIMITS and mine == _NOT_HELD)
        for number, (mine, theirs) in enumerate(zip(found, said, strict=True))
    )


def with_table(document: str, rows: list[Row]) -> str:
    """A page with the table as it is to be."""
    before, found, rest = document.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{PAGE} has no place for the table: {BEGIN} … {END}")
    lines = [f"| {' | '.join(cells)} |" for cells in (_HEADINGS, *rows)]
    lines.insert(1, "|---" * len(_HEADINGS) + "|")
    table = "\n".join(lines)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


async def _main() -> None:
    rows: list[Row] = []
    for name in BACKENDS:
        with users_folder() as folder:
            async with open_yard(name, folder) as yard:
                rows.append(row(name, yard))
    written = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_table(written, rows), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_main())
