"""Draws bars in HTML; the style sheet of the page has their colours."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from msgspec import Struct

from services.amounts import plural
from services.cli.console import printable

_MOST_BARS = 15
_BINS = 10


class Bar(Struct, frozen=True):
    """A bar, part of which may have the colour of failures."""

    label: str
    value: float
    note: str
    failed: float = 0


def escaped(value: object) -> str:
    """Return a value as text of a page, without control characters."""
    return escape(printable(str(value)))


def short(value: float) -> str:
    """Format a number with three digits, such as `0.25`, `12` and `1.5k`."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{float(f'{value / unit:.3g}'):g}{name}"
    return f"{float(f'{value:.3g}'):g}"


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw a bar for each row, with its label and note above it."""
    shown = list(rows[:_MOST_BARS])
    if rest := rows[_MOST_BARS:]:
        total, failed = sum(row.value for row in rest), sum(row.failed for row in rest)
        shown.append(Bar(f"{len(rest)} more", total, short(total), failed))
    longest = max((row.value for row in shown), default=0) or 1
    drawn = "".join(
        f'<div class="row"><span title="{escaped(row.label)}">{escaped(row.label)}</span>'
        f"<span>{escaped(row.note)}</span></div>"
        f'<div class="bar"><i style="width:{100 * (row.value - row.failed) / longest:.2f}%"></i>'
        f'<i class="bad" style="width:{100 * row.failed / longest:.2f}%"></i></div>'
        for row in shown
    )
    return f"<figure><figcaption>{escaped(title)}</figcaption>{drawn}</figure>"


def histogram(
    title: str, unit: str, values: Sequence[float], failed: Sequence[float] = (), most: float = 0
) -> str:
    """Draw how many values of each size there are up to `most`; 0: what nearly all are below."""
    ranked = sorted(values)
    wanted = most or ranked[min(len(ranked) - 1, len(ranked) * 98 // 100)] * 1.1 or 1
    step = _nice(wanted / _BINS)
    last = math.ceil(round(wanted / step, 6)) - 1
    counts, bad = (
        Counter(min(int(value / step + 1e-9), last) for value in each) for each in (values, failed)
    )
    rows = list[Bar]()
    for number in range(last + 1):
        is_open = number == last and ranked[-1] > step * (last + 1) * (1 + 1e-9)
        end = "or more" if is_open else f"to {short(step * (number + 1))}"
        count, worse = counts[number], bad[number]
        note = plural(count, "item") + (f", {worse:,} failed" if worse else "")
        rows.append(Bar(f"{short(step * number)} {end} {unit}", count, note, worse))
    return bars(title, rows)


def _nice(step: float) -> float:
    """Return the next of 1, 2 and 5, or of these times a power of ten."""
    power = 10 ** math.floor(math.log10(step))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= step * (1 - 1e-9))
