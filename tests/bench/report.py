"""The figures as a table for people, and as JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, Reading, Spread, Value

_FILE_WIDTH = 150


def show(figures: Sequence[Figure], readings: Mapping[str, Reading]) -> None:
    """Print the figures that were asked for."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("figure", "p50", "p95", "bar", "met?", "what it is"):
        table.add_column(name, justify="right" if name in ("p50", "p95", "bar") else "left")
    for figure in figures:
        if reading := readings.get(figure.key):
            table.add_row(*_row(figure, reading))
    _console().print(table)


def say(text: str) -> None:
    """Print a line."""
    _console().print(text, markup=False, highlight=False)


def as_json(figures: Sequence[Figure], readings: Mapping[str, Reading]) -> str:
    """Return all figures as one JSON object; those that were not measured are null."""
    values = {figure.key: _plain(readings, figure.key) for figure in figures}
    return json.dumps(values, indent=2) + "\n"


def _row(figure: Figure, reading: Reading) -> tuple[str, ...]:
    value, met = reading.value, figure.met(reading.value)
    p50 = value.p50 if isinstance(value, Spread) else value
    p95 = value.p95 if isinstance(value, Spread) else None
    bar = "" if figure.bar is None else f"{'≥' if figure.at_least else '≤'} {figure.bar:g}"
    if figure.slow_bar is not None:
        bar += f", {figure.slow_bar:g}"
    verdict = "" if met is None else "met" if met else "[bold red]missed[/]"
    note = f" ({reading.note})" if reading.note else ""
    return figure.key, _number(p50), _number(p95), bar, verdict, figure.meaning + note


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _plain(readings: Mapping[str, Reading], key: str) -> Value | dict[str, float] | None:
    value = readings[key].value if key in readings else None
    return asdict(value) if isinstance(value, Spread) else value


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
