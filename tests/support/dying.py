"""Writers of a home's files that are killed at their step of a number, from 0."""

import os
import signal
from collections.abc import Callable
from typing import Any

from agent_service.profiles.skills import files
from tests.support.forked_popen import ForkedPopen
from tests.support.forks import Program
from tests.support.markdown import ROOT

_TIMEOUT_S = 60


def dies(module: str, *arguments: object) -> bool:
    """Whether a program that is to be killed gets so far that it is."""
    program = Program(module, tuple(map(str, arguments)), early=(module,))
    status = ForkedPopen(program, cwd=ROOT, env=os.environ).wait(_TIMEOUT_S)
    assert status in (0, -signal.SIGKILL)
    return status != 0


class Steps:
    """The changes of files that this process still makes."""

    def __init__(self, left: int) -> None:
        self._left = left
        for name in ("_write", "_remove", "_move"):
            change = getattr(files.HomeSkillFiles, name)
            setattr(files.HomeSkillFiles, name, self._after_a_step(change))

    def count_what_is_halfway(self) -> None:
        """Count also what is written, and stands beside its place then."""
        module: Any = files
        write = module._write_through

        def written(*arguments: Any) -> None:
            write(*arguments)
            self._step()

        module._write_through = written

    def _after_a_step(self, change: Callable[..., None]) -> Callable[..., None]:
        def changed(*arguments: Any) -> None:
            self._step()
            change(*arguments)

        return changed

    def _step(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
