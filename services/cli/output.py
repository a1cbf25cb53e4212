"""Output of messages: as tables by declared columns for people, as JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct
from msgspec.structs import asdict, replace

from services.amounts import dollars
from services.cli.console import printable, say
from services.rpc import messages

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING = "—"
"""Stands for a missing value."""
UNLIMITED_COLUMNS = 100_000
"""A width at which no row is cut."""
_AGES = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Column(Struct, frozen=True):
    """One value of each row of a table."""

    heading: str
    source: str | Callable[[Any], Any] = ""
    """A field, such as `options.model`, or a function of the row; empty: the field `heading`."""
    cell: Callable[[Any], str] | None = None
    """Its text; None: by its type and the field's name."""

    def value(self, row: Any) -> Any:
        if callable(self.source):
            return self.source(row)
        return field_value(row, self.source or self.heading)

    def text(self, row: Any) -> str:
        return printable(self._show(self.value(row)))

    def within(self, part: Callable[[Any], Any]) -> "Column":
        """Return the same column for rows that have the message as a part."""

        def value(row: Any) -> Any:
            return self.value(part(row))

        return replace(self, source=value, cell=self._show)

    def _show(self, value: Any) -> str:
        if self.cell is not None:
            return self.cell(value)
        return cell_text(value, "" if callable(self.source) else self.source or self.heading)


def print_json(value: Any) -> None:
    """Print a message or another value as JSON, in one line."""
    # Escapes what the encoding of standard output cannot have.
    is_utf8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    say(json.dumps(json_value(value), ensure_ascii=not is_utf8))


def print_rows(rows: Sequence[Any], columns: Sequence[Column], empty: str = "") -> None:
    """Print a table, or `empty` without rows."""
    if not rows:
        say(empty)
        return
    cells = [[column.text(row) for column in columns] for row in rows]
    print_table([column.heading for column in columns], cells)


def print_details(row: Any, columns: Sequence[Column]) -> None:
    """Print a line for each value that is there."""
    pairs = [(column.heading, column.text(row)) for column in columns]
    shown = [pair for pair in pairs if pair[1] not in ("", NOTHING)]
    if shown:
        _console().print(_block(*zip(*shown, strict=True)))


def field_value(row: Any, path: str) -> Any:
    """Return a field of a message, an enum by name; None if it is not set."""
    *parents, name = path.split(".")
    holder = attrgetter(".".join(parents))(row) if parents else row
    value = getattr(holder, name)
    if not isinstance(holder, Message):
        return value
    field = holder.DESCRIPTOR.fields_by_name[name]
    if not field.is_repeated and field.has_presence and not holder.HasField(name):
        return None
    if field.enum_type is None:
        return value
    if field.is_repeated:
        return [messages.enum_word(field.enum_type, number) or None for number in value]
    return messages.enum_word(field.enum_type, value) or None


def enum_word(kind: Any, number: int) -> str:
    """Return an enum's word, such as `ready` for SANDBOX_STATE_READY; empty: unspecified."""
    return messages.enum_word(kind.DESCRIPTOR, number)


def json_value(value: Any) -> Any:
    """Convert a value to JSON: times in ISO 8601, durations in seconds, enums in small letters."""
    match value:
        case Timestamp():
            shown = value.ToJsonString() if value.seconds else None
        case Duration():
            seconds = value.ToMilliseconds() / 1000
            shown = int(seconds) if seconds.is_integer() else seconds
        case Message():
            names = [field.name for field in value.DESCRIPTOR.fields]
            shown = {name: json_value(field_value(value, name)) for name in names}
        case Struct():
            shown = {name: json_value(one) for name, one in asdict(value).items()}
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value)
            shown = {str(key): json_value(one) for key, one in pairs.items()}
        case bytes():
            shown = value.hex()  # a digest
        case Path():
            shown = str(value)
        case Iterable() if not isinstance(value, str):
            shown = [json_value(one) for one in cast("Iterable[Any]", value)]
        case _:
            shown = value
    return shown


def cell_text(value: Any, field: str = "") -> str:
    """Format a value; the field name's suffix is its unit."""
    match value:
        case None:
            text = NOTHING
        case Timestamp():
            text = local_time(value)
        case Duration():
            text = duration(value)
        case bool():
            text = "yes" if value else "no"
        case int() if field.endswith("_bytes"):
            text = size(value)
        case int() if field.endswith("_micro_usd"):
            text = dollars(value)
        case int():
            text = f"{value:,}"
        case Iterable() if not isinstance(value, str):
            text = ", ".join(cell_text(one) for one in cast("Iterable[Any]", value))
        case _:
            text = str(value)
    return text


def local_time(moment: Timestamp, *, seconds: bool = False) -> str:
    """Format a time in this machine's zone."""
    if not moment.seconds:
        return NOTHING
    clock = "%H:%M:%S" if seconds else "%H:%M"
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d {clock}}"


def age(moment: Timestamp) -> str:
    """Return how long ago a time was, in its largest unit."""
    seconds = max(0, int((datetime.now(UTC) - moment.ToDatetime(UTC)).total_seconds()))
    return next((f"{seconds // unit} {name}" for name, unit in _AGES if seconds >= unit), "0 s")


def duration(length: Duration | float | None) -> str:
    """Format a duration, such as `1.5s`, `20m00s` and `2h05m`."""
    if length is None:
        return NOTHING
    seconds = length.ToMilliseconds() / 1000 if isinstance(length, Duration) else length
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def size(size_bytes: int | None) -> str:
    """Format a number of bytes, such as `1.5 MiB`."""
    if size_bytes is None:
        return NOTHING
    sizes = (f"{size_bytes / unit:.1f} {name}" for name, unit in _SIZES if size_bytes >= unit)
    return next(sizes, f"{size_bytes} B")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings, uncut when piped, as blocks of lines on a narrow terminal."""
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    console = _console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, *cells in zip(headings, *rows, strict=True):
        # Columns with words can wrap, so they can be narrower.
        has_words = any(" " in cell for cell in (heading, *cells))
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


def _console() -> "Console":
    """Return standard output, without line ends if it is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else UNLIMITED_COLUMNS
    return Console(width=width, highlight=False)


def _block(headings: Sequence[str], row: Sequence[str]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    block = Table.grid(padding=(0, 2), pad_edge=False)
    block.add_column(style="bold", min_width=max(map(len, headings)))
    block.add_column(overflow="fold")
    for heading, cell in zip(headings, row, strict=True):
        if cell:
            block.add_row(heading, Text(cell))
    return block
