"""All processes of one command, as one thing that can be signalled and killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Callable

from executor_service.supervisor.loop import Loop
from executor_service.supervisor.processes import (
    Census,
    Owner,
    Process,
    Usage,
    now_ticks,
    send_signal,
    stop_all,
    usage_of,
)

_GIVE_UP_AFTER_S = 2.0
_FIRST_LOOK_S = 0.005
_SLOWEST_LOOK_S = 0.1


class Forest:
    """The trees of every command, whom the census tells apart."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._census = Census()
        self._trees: dict[str, Tree] = {}
        self._left: dict[str, Owner] = {}

    def plant(self) -> Tree:
        """A tree for a command that is about to start."""
        tree = Tree(self)
        self._trees[tree.marker] = tree
        return tree

    def fell(self, tree: Tree) -> None:
        """The tree's command has finished and none of its processes may be left."""
        self._trees.pop(tree.marker, None)

    def leave(self, tree: Tree) -> None:
        """The tree's command has finished and its processes stay."""
        self._trees.pop(tree.marker, None)
        self._left[tree.marker] = tree.owner._replace(running=False, leader_lives=False)

    def count(self) -> dict[str, list[Process]]:
        """The living processes of each tree, by its marker."""
        found = self._census.count(self.owners())
        for marker in [marker for marker in self._left if not found[marker]]:
            del self._left[marker]
        return found

    def kill(self, marker: str) -> None:
        """Kill every process of one tree."""
        for process in stop_all(lambda: self._census.count(self.owners()).get(marker, [])):
            send_signal(process, signal.SIGKILL)

    def kill_everything(self) -> None:
        """Kill every process of every tree, for the end of the box."""
        for owner in self.owners():
            self.kill(owner.marker)

    def owners(self) -> list[Owner]:
        """Everyone who may have processes."""
        return [tree.owner for tree in self._trees.values()] + list(self._left.values())


class Tree:
    """One command's processes; they know each other by a marker in their environment."""

    def __init__(self, forest: Forest) -> None:
        self.marker = os.urandom(16).hex()
        self._forest = forest
        self._leader = 0
        self._leader_lives = False
        self._planted_ticks = now_ticks()
        self._killing = False

    @property
    def owner(self) -> Owner:
        """This tree, for the census."""
        return Owner(
            marker=self.marker,
            leader=self._leader,
            leader_lives=self._leader_lives,
            started_ticks=self._planted_ticks,
            running=True,
        )

    @property
    def killing(self) -> bool:
        """Whether kill was called."""
        return self._killing

    def leader_started(self, pid: int) -> None:
        """The first process, which leads a session of its own."""
        self._leader = pid
        self._leader_lives = True

    def leader_reaped(self) -> None:
        """The first process's id may be used again from now on."""
        self._leader_lives = False

    def members(self) -> list[Process]:
        """The living processes."""
        return self._forest.count().get(self.marker, [])

    def usage(self) -> Usage:
        """What they use together."""
        return usage_of(self.members())

    def signal_group(self, number: int) -> None:
        """Signal the first process's group."""
        if self._leader_lives:
            with suppress(OSError):
                os.killpg(self._leader, number)

    def signal_all(self, number: int) -> None:
        """Signal every process."""
        for process in self.members():
            send_signal(process, number)

    def kill(self, on_gone: Callable[[int], None]) -> None:
        """SIGKILL until nobody is left, then call on_gone with the number of survivors."""
        if self._killing:
            return
        self._killing = True
        give_up_at = time.monotonic() + _GIVE_UP_AFTER_S
        if self._leader_lives:
            self.signal_group(signal.SIGKILL)
        self._forest.kill(self.marker)

        def look(pause_s: float) -> None:
            survivors = len(self.members()) + self._leader_lives
            if survivors and time.monotonic() < give_up_at:
                self._forest.kill(self.marker)
                pause_s = min(pause_s * 2, _SLOWEST_LOOK_S)
                self._forest.loop.after(pause_s, lambda: look(pause_s))
            else:
                on_gone(survivors)

        self._forest.loop.after(_FIRST_LOOK_S, lambda: look(_FIRST_LOOK_S))
