"""What was typed before, without the secrets in it, for the next time."""

from pathlib import Path

from prompt_toolkit.history import FileHistory

from services.redact import Redactor


class TypedHistory(FileHistory):
    """Lines in a file of the home; those of this sitting are as they were typed."""

    def __init__(self, file: Path, redactor: Redactor) -> None:
        super().__init__(str(file))
        self._redactor = redactor

    def store_string(self, string: str) -> None:
        """Keep a line."""
        super().store_string(self._redactor.redact(string))
