"""The product with one of its controls switched off, for a test to prove that it would notice.

A test of a control that passes without the control proves nothing. So each attack is made once more
where the control is off, and has to succeed there.

`python -m tests.security.mutants NAME ENVIRON SOCKET` serves such an executor in a process of its
own, as `tests.executors` serves the real one.
"""

import asyncio
import io
import sys
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from executor_service import app
from executor_service.backends.base import Backend, Box
from executor_service.commands.command import Command
from executor_service.output.spool import CommandSpool, Spool
from executor_service.pools import inventory
from executor_service.supervisor_zipapp import build_zipapp
from services.clock import SystemClock
from tests import executors


@contextmanager
def without(owner: object, control: str, instead: object) -> Generator[None]:
    """Something else in the place of a control, for the time of the block."""
    real = vars(owner)[control]
    setattr(owner, control, instead)
    try:
        yield
    finally:
        setattr(owner, control, real)


def supervisor_with(**appended: str) -> bytes:
    """The supervisor with more code at the end of some of its modules."""
    left, mutant = dict(appended), io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(build_zipapp())) as real,
        zipfile.ZipFile(mutant, "w", zipfile.ZIP_STORED) as changed,
    ):
        for entry in real.infolist():
            code = left.pop(Path(entry.filename).stem, "")
            changed.writestr(entry, real.read(entry) + f"\n\n{code}\n".encode())
    assert not left, f"the supervisor has no modules {list(left)}"
    return mutant.getvalue()


def output_is_kept_in_memory() -> None:
    """The box hears at once that more may come, and nothing is ever written to disk."""
    append = CommandSpool.append

    def append_and_ask_for_more(
        self: CommandSpool, stream: int, offset: int, data: memoryview
    ) -> None:
        append(self, stream, offset, data)
        if self.on_written is not None:
            self.on_written(stream, self.end(stream))

    async def write_nothing(self: Spool) -> None:
        await asyncio.Event().wait()

    CommandSpool.append = append_and_ask_for_more
    Spool.run = write_nothing


def output_waits_for_its_reader() -> None:
    """The box does not hear that output is safe, so that its command has to wait."""

    def say_nothing(self: Command, fd: int, offset: int) -> None:
        pass

    acknowledge = "_acknowledge"
    setattr(Command, acknowledge, say_nothing)


def boxes_are_not_destroyed() -> None:
    """An executor forgets boxes instead of ending them."""

    async def forget(backend: Backend, box: Box) -> None:
        pass

    inventory.destroy = forget


class WrongClock(SystemClock):
    """The machine's clock, with a wall time that is wrong."""

    def __init__(self, skew_s: float = 0) -> None:
        self.skew_s = skew_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skew_s)


def clock_is_ahead() -> None:
    """By ten minutes."""
    app.SystemClock = lambda: WrongClock(600)  # pyright: ignore[reportAttributeAccessIssue]


def clock_is_behind() -> None:
    """By ten minutes."""
    app.SystemClock = lambda: WrongClock(-600)  # pyright: ignore[reportAttributeAccessIssue]


MUTANTS: Mapping[str, Callable[[], None]] = {
    change.__name__: change
    for change in (
        output_is_kept_in_memory,
        output_waits_for_its_reader,
        boxes_are_not_destroyed,
        clock_is_ahead,
        clock_is_behind,
    )
}
"""What is switched off in an executor of its own process."""


class Mutant(executors.Process):
    """An executor in a process of its own that lacks something."""

    def __init__(self, lacking: Callable[[], None], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.program = ("tests.security.mutants", lacking.__name__)


def main() -> None:
    """Serve one executor that lacks what the first argument names."""
    MUTANTS[sys.argv.pop(1)]()
    executors.main()
