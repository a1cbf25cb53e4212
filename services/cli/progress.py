"""How far a command is, on a terminal only."""

import sys
from types import TracebackType
from typing import Self

_EVERY = 50


class Progress:
    """Counts on one line of standard error, which is gone in the end."""

    def __init__(self, what: str, total: int) -> None:
        self.total = total
        self._what = what
        self._count = 0
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """One more is done."""
        self._count += 1
        if self._count % _EVERY == 0 and sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\r{self._count} of {self.total} files {self._what}")
            sys.stderr.flush()


class Activity:
    """Says on one line of standard error what is being done, which is gone in the end."""

    def __init__(self) -> None:
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, what: str) -> None:
        """This is being done now."""
        if sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{what}")
            sys.stderr.flush()
