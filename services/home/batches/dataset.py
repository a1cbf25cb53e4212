"""Reads the items of a batch from JSONL."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from services.errors import InvalidArgument
from services.home.json_lines import parse_lines
from services.validation import check_id, decode

MAX_PROMPT_BYTES = 256 * 1024
MAX_SCRIPT_BYTES = 64 * 1024
MAX_FILES = 20
_MAX_FILE_BYTES = 50_000_000
"""Of one file, as the agent takes it."""
Tags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=20)]


class DatasetItem(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a data set."""

    prompt: str
    id: str = ""
    """Empty: its line's number."""
    image: str = ""
    """A picture, relative to the data set's folder."""
    files: tuple[str, ...] = ()
    """Files, relative to the data set's folder."""
    setup: str = ""
    check: str = ""
    tags: Tags = ()


class Dataset(Struct, frozen=True):
    """The items of a file, and what is wrong with its other lines."""

    items: Sequence[DatasetItem]
    problems: Sequence[str] = field(default_factory=tuple[str, ...])


def read_dataset(path: Path) -> Dataset:
    """Read a data set; InvalidArgument if the file cannot be read."""
    items, problems = list[DatasetItem](), list[str]()
    lines_of_ids: dict[str, int] = {}

    def parse(line: bytes, number: int) -> DatasetItem:
        item = parse_item(line, number, path.parent)
        if (first := lines_of_ids.setdefault(item.id, number)) != number:
            raise InvalidArgument(f"line {first} has the id {item.id}, too")
        return item

    items += parse_lines(path, parse, problems.append)
    return Dataset(items, problems)


def parse_item(line: bytes, number: int, folder: Path) -> DatasetItem:
    """Parse a line; raises InvalidArgument or msgspec.MsgspecError."""
    item = decode(line, DatasetItem)
    item = msgspec.structs.replace(item, id=item.id or str(number))
    check_id("id", item.id)
    if not 1 <= len(item.prompt.strip().encode()) <= MAX_PROMPT_BYTES:
        raise InvalidArgument(f"a prompt has 1 to {MAX_PROMPT_BYTES:,} bytes")
    for script in (item.setup, item.check):
        if len(script.encode()) > MAX_SCRIPT_BYTES or "\0" in script:
            raise InvalidArgument(f"a script has up to {MAX_SCRIPT_BYTES:,} bytes, and no NUL")
    paths = file_paths(item, folder)
    if len(paths) > MAX_FILES:
        raise InvalidArgument(f"an item has up to {MAX_FILES} files")
    for path in paths:
        # A data set of others must not name files of yours.
        if not path.is_relative_to(folder) or ".." in path.relative_to(folder).parts:
            raise InvalidArgument(f"{path} is not in the folder of the data set")
        if not path.is_file():
            raise InvalidArgument(f"there is no file {path}")
        if not 1 <= path.stat().st_size <= _MAX_FILE_BYTES:
            raise InvalidArgument(f"{path} must have 1 to {_MAX_FILE_BYTES:,} bytes")
    return item


def file_paths(item: DatasetItem, folder: Path) -> list[Path]:
    """Return the files that go with an item."""
    names = (*((item.image,) if item.image else ()), *item.files)
    return [folder / name for name in names]
