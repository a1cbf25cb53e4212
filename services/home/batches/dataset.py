"""Reads the items of a batch from JSONL."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from hermes.common.v1.content_pb2 import MessageFile
from hermes.scheduler.v1.batch_item_pb2 import BatchPrompt
from services.errors import InvalidArgument
from services.home.json_lines import parse_lines
from services.home.media_types import media_type
from services.validation import check_id, decode

MAX_PROMPT_BYTES = 256 * 1024
MAX_SCRIPT_BYTES = 64 * 1024
MAX_FILES = 20
MAX_FILE_BYTES = 50_000_000
"""Of one file, as the agent takes it."""

Upload: TypeAlias = Callable[[Path], Awaitable[MessageFile]]
"""Gives a file to the agent."""
Tags = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=20)]


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_Item = TypeVar("_Item", bound=_Named)


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
    setup_files: tuple[str, ...] = ()
    """Files for the setup script, of which the model is not told."""
    check_files: tuple[str, ...] = ()
    """Files for the check, which the sandbox gets after the turn."""


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
    if (item.setup_files and not item.setup) or (item.check_files and not item.check):
        raise InvalidArgument("setup_files and check_files are for a setup and a check script")
    kinds = _message_files(item), item.setup_files, item.check_files
    if max(map(len, kinds)) > MAX_FILES:
        raise InvalidArgument(f"an item has up to {MAX_FILES} files")
    if item.image and not media_type(item.image, "image/").startswith("image/"):
        raise InvalidArgument(f"{item.image} is no picture; give it in files")
    for path in (folder / name for names in kinds for name in names):
        _check_file(path, folder)
    return item


def _check_file(path: Path, folder: Path) -> None:
    # A data set of others must not name files of yours.
    if not path.is_relative_to(folder) or ".." in path.relative_to(folder).parts:
        raise InvalidArgument(f"{path} is not in the folder of the data set")
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InvalidArgument(f"{path} leads out of the folder of the data set")
        if not path.is_file():
            raise InvalidArgument(f"there is no file {path}")
        if not 1 <= path.stat().st_size <= MAX_FILE_BYTES:
            raise InvalidArgument(f"{path} must have 1 to {MAX_FILE_BYTES:,} bytes")
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    except (RuntimeError, ValueError):  # a loop of links, or a NUL
        raise InvalidArgument(f"there is no file {path}") from None


def _message_files(item: DatasetItem) -> Sequence[str]:
    return (*((item.image,) if item.image else ()), *item.files)


def read_dataset(
    path: Path, parse: Callable[[bytes, int, Path], _Item] = parse_item
) -> tuple[Sequence[_Item], Sequence[str]]:
    """Return the items of a file, and what is wrong with its other lines.

    InvalidArgument if the file cannot be read.
    """
    problems, lines = list[str](), dict[str, int]()

    def parse_once(line: bytes, number: int) -> _Item:
        item = parse(line, number, path.parent)
        if (first := lines.setdefault(item.id, number)) != number:
            raise InvalidArgument(f"line {first} has the id {item.id}, too")
        return item

    return list(parse_lines(path, parse_once, problems.append)), problems


async def batch_prompt(
    item: DatasetItem, folder: Path, toolsets: Sequence[str], upload: Upload
) -> BatchPrompt:
    """Return an item as a batch takes it; its files are in the folder."""

    async def uploaded(names: Sequence[str]) -> Sequence[MessageFile]:
        return [await upload(folder / name) for name in names]

    return BatchPrompt(
        item_id=item.id,
        prompt=item.prompt,
        files=await uploaded(_message_files(item)),
        setup=item.setup,
        setup_files=await uploaded(item.setup_files),
        check=item.check,
        check_files=await uploaded(item.check_files),
        tags=item.tags,
        toolsets=toolsets,
    )
