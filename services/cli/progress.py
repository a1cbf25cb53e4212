"""How far a command is, on a terminal only."""

import sys
from types import TracebackType
from typing import Self


class StatusLine:
    """One line of standard error that says what is being done, and is gone in the end."""

    def __init__(self) -> None:
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self.show("")

    def show(self, text: str) -> None:
        """Say this in place of what was said before."""
        if sys.stderr.isatty():
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
