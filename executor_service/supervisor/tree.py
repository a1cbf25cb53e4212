"""All processes of one command, to be signalled and killed together.

A process belongs to a command if the chain of its parents leads to the command's first process. A
process that outlived its parents becomes the supervisor's child. It belongs to the command of the
marker in its environment, of its session, or that it belonged to before. If it hides all of that,
it belongs to the only running command that can have started it.
"""

from __future__ import annotations

import os
import time

from executor_service.supervisor.light import signal, suppress
from executor_service.supervisor.processes import (
    children_of,
    marker_of,
    now_ticks,
    read_table,
    send_signal,
    stop_all,
    with_descendants,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from executor_service.supervisor.loop import Loop
    from executor_service.supervisor.processes import Identity, Process

_GIVE_UP_AFTER_S = 2.0
_FIRST_LOOK_S = 0.005
_SLOWEST_LOOK_S = 0.1


class Forest:
    """Tells which command each process belongs to, and remembers it once the parents are gone."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._trees: dict[str, Tree] = {}
        self._known: dict[Identity, str] = {}

    def add_tree(self) -> Tree:
        tree = Tree(self)
        self._trees[tree.marker] = tree
        return tree

    def remove_tree(self, tree: Tree) -> None:
        self._trees.pop(tree.marker, None)

    def count(self) -> dict[str, list[Process]]:
        """Return the living processes of each tree, by its marker."""
        children = children_of(read_table())
        leaders = {tree.leader: tree for tree in self._trees.values() if tree.leader_lives}
        found: dict[str, list[Process]] = {marker: [] for marker in self._trees}
        known: dict[Identity, str] = {}
        for root in children.get(os.getpid(), []):
            leader = leaders.get(root.pid)
            marker = leader.marker if leader else self._marker_of_orphan(root)
            if marker is None:
                continue
            for process in with_descendants([root], children):
                known[process.identity] = marker
                if process.state not in "ZX":
                    found[marker].append(process)
        self._known = known
        for tree in list(self._trees.values()):
            if tree.is_detached and not found[tree.marker]:
                self.remove_tree(tree)
        return found

    def _marker_of_orphan(self, orphan: Process) -> str | None:
        sessions = {tree.leader: tree.marker for tree in self._trees.values()}
        for marker in (
            self._known.get(orphan.identity),
            marker_of(orphan.pid),
            sessions.get(orphan.session),
        ):
            if marker in self._trees:
                return marker
        suspects = [
            tree.marker
            for tree in self._trees.values()
            if not tree.is_detached and tree.created_ticks <= orphan.started_ticks + 1
        ]
        return suspects[0] if len(suspects) == 1 else None

    def kill(self, marker: str) -> None:
        for process in stop_all(lambda: self.count().get(marker, [])):
            send_signal(process, signal.SIGKILL)

    def kill_everything(self) -> None:
        for marker in list(self._trees):
            self.kill(marker)


class Tree:
    """The processes of one command, which share a marker in their environment."""

    def __init__(self, forest: Forest) -> None:
        self.marker = os.urandom(16).hex()
        self.leader = 0
        """Process id of the first process, which leads a session of its own."""
        self.leader_lives = False
        """False once it is reaped, when its id may be used again."""
        self.created_ticks = now_ticks()
        self.is_detached = False
        """Whether the command has finished but its processes stay."""
        self.killing = False
        self._forest = forest

    def leader_started(self, pid: int) -> None:
        self.leader, self.leader_lives = pid, True

    def members(self) -> list[Process]:
        return self._forest.count().get(self.marker, [])

    def signal_group(self, number: int) -> None:
        if self.leader_lives:
            with suppress(OSError):
                os.killpg(self.leader, number)

    def signal_all(self, number: int) -> None:
        for process in self.members():
            send_signal(process, number)

    def kill(self, on_gone: Callable[[int], None]) -> None:
        """Kill until no process is left or time is up; on_gone gets the number of survivors."""
        if self.killing:
            return
        self.killing = True
        give_up_at = time.monotonic() + _GIVE_UP_AFTER_S
        if self.leader_lives:
            self.signal_group(signal.SIGKILL)
        self._forest.kill(self.marker)

        def look(pause_s: float) -> None:
            survivors = len(self.members()) + self.leader_lives
            if survivors and time.monotonic() < give_up_at:
                self._forest.kill(self.marker)
                pause_s = min(pause_s * 2, _SLOWEST_LOOK_S)
                self._forest.loop.after(pause_s, lambda: look(pause_s))
            else:
                on_gone(survivors)

        self._forest.loop.after(_FIRST_LOOK_S, lambda: look(_FIRST_LOOK_S))
