"""Files with a JSON object on each line."""

from codecs import BOM_UTF8
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

    Blank lines are passed over. Raises InvalidArgument if the file cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    with file as lines:
        for number, line in enumerate(lines, 1):
            text = line.removeprefix(BOM_UTF8)
            if not text.strip():
                continue
            try:
                parsed = parse(text, number)
            except (InvalidArgument, msgspec.MsgspecError, UnicodeDecodeError) as error:
                refuse(f"{path}:{number}: {error}")
            else:
                yield parsed
