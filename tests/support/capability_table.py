"""What each backend can do: the table of docs/operators/backends/README.md and what probes find."""

from executor_service.backends.base import Enforcement, WorkspacePlace, store_elsewhere
from executor_service.records.sandboxes import Isolation
from tests.support.boxes import Yard
from tests.support.markdown import ROOT

PAGE = ROOT / "docs/operators/backends/README.md"
BEGIN, END = "<!-- capabilities -->", "<!-- end -->"

_LIMITS = range(3, 8)
_NOT_HELD = "no"
_ISOLATION = {
    Isolation.NONE: "none",
    Isolation.NAMESPACE: "namespaces of the kernel",
    Isolation.USERSPACE_KERNEL: "a kernel in user space",
    Isolation.MICROVM: "a virtual machine",
}
_HELD = {Enforcement.ENFORCED: "yes", Enforcement.WATCHED: "watched", Enforcement.NONE: _NOT_HELD}
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
