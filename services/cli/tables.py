"""Tables for people."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNLIMITED_COLUMNS = 100_000
"""So wide that no row is ever cut."""


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings, in colour only on a terminal; whole, not cut, when piped."""
    console = Console(width=None if sys.stdout.isatty() else UNLIMITED_COLUMNS)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
