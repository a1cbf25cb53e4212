"""Enforces a box's limits with the kernel's control groups, if this process may.

Version 1 has a tree for each resource, version 2 one for all. A group is made beside or below this
process's own. The executor must be allowed to make it and to move processes there: root is, and so
is a user below a session whose service manager delegates to users.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Enforcement, Limits

_CPU_PERIOD_US = 100_000
_PREFIX = "hermes-"
_FORGOTTEN_AFTER_S = 3600
_REMOVE_TRIES = 50
_REMOVE_PAUSE_S = 0.01
_SHOWN_AT = Path("/sys/fs/cgroup")
_ONLY_WITH_SWAP_ACCOUNTING = ("memory.memsw.limit_in_bytes", "memory.swap.max")


class _Tree(Struct, frozen=True):
    parent: Path
    controllers: frozenset[str]
    version: int


class Cgroups:
    """Makes and removes the control groups of boxes. All methods block for a moment."""

    def __init__(self, trees: tuple[_Tree, ...]) -> None:
        self._trees = trees
        self.controllers = frozenset[str]().union(*(tree.controllers for tree in trees))
        """Which of memory, pids and cpu can be limited."""

    def enforcement(self, controller: str) -> Enforcement:
        return Enforcement.ENFORCED if controller in self.controllers else Enforcement.NONE

    @classmethod
    def find(cls, proc: Path = Path("/proc/self")) -> "Cgroups":
        """Find what this process may use, which may be nothing."""
        places = _own_groups((proc / "cgroup").read_text())
        trees: list[_Tree] = []
        for mount in _mounts((proc / "mountinfo").read_text()):
            if mount.version == 2 and "" in places:
                trees += _delegated(mount.point, places[""].lstrip("/"))
            for controller in ("memory", "pids", "cpu"):
                if mount.version == 1 and controller in mount.options and controller in places:
                    own = mount.point / places[controller].lstrip("/")
                    parent = own if own.is_dir() else mount.point
                    if os.access(parent, os.W_OK):
                        trees.append(_Tree(parent, frozenset({controller}), version=1))
        return cls(tuple(trees))

    def make(self, name: str, limits: Limits, extra_pids: int) -> list[Path]:
        """Make the groups of a box with its limits; OSError if the kernel refuses."""
        groups = [tree.parent / f"{_PREFIX}{name}" for tree in self._trees]
        try:
            for tree, group in zip(self._trees, groups, strict=True):
                group.mkdir(exist_ok=True)
                for file, value in _settings(tree, limits, extra_pids):
                    if file not in _ONLY_WITH_SWAP_ACCOUNTING or (group / file).exists():
                        (group / file).write_text(value)
        except OSError:
            self.remove(groups)
            raise
        return groups

    def mounts(self, groups: list[Path]) -> list[tuple[Path, Path]]:
        """Return each group and its place in the box, where the supervisor counts memory kills."""
        if len(self._trees) == 1 and self._trees[0].version == 2:
            return [(groups[0], _SHOWN_AT)]
        return [
            (group, _SHOWN_AT / controller)
            for tree, group in zip(self._trees, groups, strict=True)
            for controller in tree.controllers & {"memory", "pids"}
        ]

    def sweep(self) -> None:
        long_ago = time.time() - _FORGOTTEN_AFTER_S
        for tree in self._trees:
            for group in tree.parent.glob(f"{_PREFIX}*"):
                # The kernel refuses for a group that has processes.
                with suppress(OSError):
                    if group.stat().st_mtime < long_ago:
                        group.rmdir()

    @staticmethod
    def remove(groups: list[Path]) -> None:
        for group in groups:
            for _ in range(_REMOVE_TRIES):
                try:
                    group.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(_REMOVE_PAUSE_S)
                else:
                    break


def _settings(tree: _Tree, limits: Limits, extra_pids: int) -> Iterator[tuple[str, str]]:
    memory, pids = str(limits.memory_bytes), str(limits.pids + extra_pids)
    if "memory" in tree.controllers:
        if tree.version == 2:
            yield from (("memory.max", memory), ("memory.swap.max", "0"))
        else:
            yield "memory.limit_in_bytes", memory
            yield "memory.memsw.limit_in_bytes", memory
    if "pids" in tree.controllers:
        yield "pids.max", pids
    if "cpu" in tree.controllers and limits.cpu_count is not None:
        quota = str(int(limits.cpu_count * _CPU_PERIOD_US))
        if tree.version == 2:
            yield "cpu.max", f"{quota} {_CPU_PERIOD_US}"
        else:
            yield "cpu.cfs_quota_us", quota


def _own_groups(text: str) -> dict[str, str]:
    """Map each controller ("" for version 2) to the path of this process's group."""
    places: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            places[controller] = path
    return places


class _Mount(Struct, frozen=True):
    point: Path
    version: int
    options: frozenset[str]


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            point = Path(before.split(" ")[4])
            yield _Mount(point, 2 if kind == "cgroup2" else 1, frozenset(options.split(",")))


def _delegated(mount: Path, own: str) -> Iterator[_Tree]:
    """Find the nearest group above ours whose children get controllers and that we may extend.

    Our own group does not qualify: in version 2 only groups without processes pass controllers on.
    """
    for parent in (mount / own).parents if own else [mount]:
        if not parent.is_relative_to(mount):
            return
        with suppress(OSError):
            given = set((parent / "cgroup.subtree_control").read_text().split())
            useful = given & {"memory", "pids", "cpu"}
            may_move = os.access(parent / "cgroup.procs", os.W_OK)
            if {"memory", "pids"} <= useful and may_move and os.access(parent, os.W_OK):
                yield _Tree(parent, frozenset(useful), version=2)
                return
