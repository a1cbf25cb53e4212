"""How answers of commands are written: short, and fit for a phone."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

QUOTE_CHARS = 120
MOST_LINES = 20


def moment(time: datetime | None) -> str:
    """A time as people read it, in the zone of this machine."""
    return f"{time.astimezone():%a %d %b, %H:%M}" if time is not None else "never"


def moment_in(zone: str, time: datetime | None) -> str:
    """A time as people read it in a zone, which is read from the disk."""
    return f"{time.astimezone(ZoneInfo(zone)):%a %d %b, %H:%M %Z}" if time is not None else "never"


def shortened(text: str, chars: int = QUOTE_CHARS) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return f"{line[: chars - 1]}…" if len(line) > chars else line


def code(text: str, chars: int = QUOTE_CHARS) -> str:
    """The same as it is, whatever Markdown would make of it."""
    return f"`{shortened(text.replace('`', chr(39)), chars) or '…'}`"


def listed(lines: Sequence[str], hint: str, most: int = MOST_LINES) -> str:
    """Lines as a list; where there are more, the hint says how to see them."""
    shown = [f"- {line}" for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"\n{len(lines) - most} more; {hint}")
    return "\n".join(shown)


def dollars(micro_usd: int) -> str:
    """An amount as people read it: cents, and more of it where there is less."""
    usd = micro_usd / 1_000_000
    return f"${usd:,.2f}" if usd >= 1 or not micro_usd else f"${usd:.4f}"


def counted(count: int, noun: str) -> str:
    """So many of something."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
