"""Tables for people."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

UNLIMITED_COLUMNS = 100_000
"""So wide that no row is ever cut."""


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings, in colour only on a terminal; whole, not cut, when piped.

    Where the terminal is so narrow that words would be cut, each row is a block of lines.
    """
    console = Console(width=None if sys.stdout.isatty() else UNLIMITED_COLUMNS)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, *cells in zip(headings, *rows, strict=True):
        # What gets narrower is what can go on in the next line.
        has_words = any(" " in cell for cell in cells)
        table.add_column(heading, overflow="fold", no_wrap=not has_words)
    for row in rows:
        table.add_row(*map(Text, row))
    unbounded = console.options.update(max_width=UNLIMITED_COLUMNS)
    if Measurement.get(console, unbounded, table).minimum <= console.width:
        console.print(table)
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        console.print(_block(headings, row))


def _block(headings: Sequence[str], row: Sequence[str]) -> Table:
    """A line for each cell that says something."""
    block = Table.grid(padding=(0, 2), pad_edge=False)
    block.add_column(style="bold", min_width=max(map(len, headings)))
    block.add_column(overflow="fold")
    for heading, cell in zip(headings, row, strict=True):
        if cell:
            block.add_row(heading, Text(cell))
    return block
