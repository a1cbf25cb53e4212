"""Draws plots as SVG; the style sheet of the page has their colours."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import escape

from msgspec import Struct

from services.cli.console import printable

WIDTH, HEIGHT = 400, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 38
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
_MOST_BARS = 15
_BAR_PITCH = 32
_BINS = 20
_SAMPLES = 60


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
        total = sum(row.value for row in rest)
        failed = sum(row.failed for row in rest)
        shown.append(Bar(f"{len(rest)} more", total, short(total), failed))
    longest = max((row.value for row in shown), default=0) or 1
    parts = list[str]()
    for place, row in enumerate(shown):
        top, scale = place * _BAR_PITCH, WIDTH / longest
        parts.append(
            f"<g><title>{escaped(f'{row.label}: {row.note}')}</title>"
            f'<text x="0" y="{top + 13}">{escaped(_cut(row.label))}</text>'
            f'<text class="end" x="{WIDTH}" y="{top + 13}">{escaped(row.note)}</text>'
            f'<rect class="good" x="0" y="{top + 18}" width="{row.value * scale:.1f}" height="8"/>'
            f'<rect class="bad" x="{(row.value - row.failed) * scale:.1f}" y="{top + 18}" '
            f'width="{row.failed * scale:.1f}" height="8"/></g>'
        )
    return _figure(title, parts, len(shown) * _BAR_PITCH)


def lines(title: str, x_axis: str, y_axis: str, series: Mapping[str, Sequence[float]]) -> str:
    """Draw how many values of each series are at most x, with lines of the classes line0, line1."""
    every = {name: sorted(values) for name, values in series.items()}
    longest = max((values[-1] for values in every.values() if values), default=0) or 1
    highest = max(map(len, every.values())) or 1
    places = [longest * number / _SAMPLES for number in range(_SAMPLES + 1)]
    counts = {
        name: [bisect_right(values, place + 1e-9) for place in places]
        for name, values in every.items()
    }
    parts = [_axes(x_axis, y_axis, longest, highest)]
    for number, counted in enumerate(counts.values()):
        points = " ".join(
            f"{LEFT + _INNER_WIDTH * place / longest:.1f},{_y(count, highest):.1f}"
            for place, count in zip(places, counted, strict=True)
        )
        parts.append(f'<polyline class="line{number}" points="{points}"/>')
    step = _INNER_WIDTH / _SAMPLES
    for number, place in enumerate(places):
        text = ", ".join(f"{counts[name][number]:,} {name}" for name in counts)
        left = LEFT + step * (number - 0.5)
        parts.append(_hover(left, step, f"{short(place)} {x_axis}: {text}"))
    keys = "".join(
        f'<span class="key key{number}">{escaped(name)}</span>'
        for number, name in enumerate(counts)
    )
    return _figure(title, parts, HEIGHT, keys)


def histogram(title: str, x_axis: str, values: Sequence[float], most: float = 0) -> str:
    """Draw how many values there are of each size up to `most`; 0: what nearly all are below."""
    ranked = sorted(values)
    wanted = most or ranked[min(len(ranked) - 1, len(ranked) * 98 // 100)] * 1.1 or 1
    step = _nice(wanted / _BINS)
    bins = [0] * math.ceil(round(wanted / step, 6))
    for value in ranked:
        bins[min(int(value / step + 1e-9), len(bins) - 1)] += 1
    longest, highest = step * len(bins), max(bins)
    parts = [_axes(x_axis, "items", longest, highest)]
    width = _INNER_WIDTH / len(bins)
    for number, count in enumerate(bins):
        left, top = LEFT + number * width, _y(count, highest)
        is_last = number == len(bins) - 1 and ranked[-1] > longest
        end = "or more" if is_last else f"to {short((number + 1) * step)}"
        parts.append(
            f'<rect class="good" x="{left + 0.5:.1f}" y="{top:.1f}" width="{width - 1:.1f}" '
            f'height="{TOP + _INNER_HEIGHT - top:.1f}"/>'
        )
        parts.append(_hover(left, width, f"{short(number * step)} {end} {x_axis}: {count:,} items"))
    return _figure(title, parts, HEIGHT)


def _figure(title: str, parts: Sequence[str], height: int, keys: str = "") -> str:
    return (
        f"<figure><figcaption>{escaped(title)}{keys}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escaped(title)}">'
        f"{''.join(parts)}</svg></figure>"
    )


def _axes(x_axis: str, y_axis: str, longest: float, highest: float) -> str:
    parts = list[str]()
    for value in _ticks(highest, least=1):
        y = _y(value, highest)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="end" x="{LEFT - 5}" y="{y + 4:.1f}">{short(value)}</text>')
    for value in _ticks(longest):
        x = LEFT + _INNER_WIDTH * value / longest
        parts.append(f'<text class="middle" x="{x:.1f}" y="{HEIGHT - 22}">{short(value)}</text>')
    middle = LEFT + _INNER_WIDTH / 2
    parts.append(f'<text class="middle" x="{middle}" y="{HEIGHT - 5}">{escaped(x_axis)}</text>')
    turned = f'transform="translate(11 {TOP + _INNER_HEIGHT / 2}) rotate(-90)"'
    parts.append(f'<text class="middle" {turned}>{escaped(y_axis)}</text>')
    return "".join(parts)


def _hover(left: float, width: float, text: str) -> str:
    return (
        f'<rect class="hover" x="{left:.1f}" y="{TOP}" width="{width:.1f}" '
        f'height="{_INNER_HEIGHT}"><title>{escaped(text)}</title></rect>'
    )


def _y(value: float, highest: float) -> float:
    return TOP + _INNER_HEIGHT * (1 - value / highest)


def _ticks(most: float, least: float = 0) -> list[float]:
    step = max(_nice(most / 5), least)
    return [step * number for number in range(int(most / step + 1e-9) + 1)]


def _nice(step: float) -> float:
    """Return the next of 1, 2 and 5, or of these times a power of ten."""
    power = 10 ** math.floor(math.log10(step))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= step * (1 - 1e-9))


def _cut(label: str, most: int = 28) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
