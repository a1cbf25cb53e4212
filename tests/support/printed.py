"""The commands that pages of the documentation have printed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.markdown import Block, Page

NOT_RUN = "not run: "
"""How the comment before a block begins that no test runs; it goes on with why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command, with the page that it is on."""

    page: str
    text: str

    @property
    def plain(self) -> str:
        """Without comments and spaces that mean nothing."""
        return " ".join(self.text.partition("  #")[0].split())


def printed(documents: Sequence[Page]) -> list[Line]:
    """The commands of pages, but for those of which they say that they are not run."""
    return [
        Line(each.name, text)
        for each in documents
        for block in each.blocks("sh", "console")
        if not block.note.startswith(NOT_RUN)
        for text in _typed(block)
    ]


def _typed(block: Block) -> Iterator[str]:
    """The commands that a person is to type."""
    for text in block.text.replace("\\\n", " ").splitlines():
        if block.language != "console" or text.startswith("$ "):
            command = text.removeprefix("$ ").strip()
            if command and not command.startswith("#"):
                yield command
