"""Tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings, in colour only on a terminal; whole, not cut, when piped."""
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=not console.is_terminal)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table, soft_wrap=not console.is_terminal)
