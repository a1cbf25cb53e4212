"""Files with a JSON object on each line."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from services.errors import InvalidArgument

_T = TypeVar("_T")


def parse_lines(
    path: Path, parse: Callable[[bytes, int], _T], refuse: Callable[[str], None]
) -> Iterator[_T]:
    """Yield what `parse` makes of each line and its number; `refuse` hears what is wrong.

    Blank lines are passed over.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                parsed = parse(line, number)
            except (InvalidArgument, msgspec.MsgspecError, UnicodeDecodeError) as error:
                refuse(f"{path}:{number}: {error}")
            else:
                yield parsed
