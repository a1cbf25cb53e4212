"""Reads the items of a batch from JSONL."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from google.protobuf.message import Message
from msgspec import Meta, Struct, field

from hermes.scheduler.v1.batch_item_pb2 import BatchOptions, BatchPrompt
from services.errors import InvalidArgument
from services.home.json_lines import parse_lines
from services.validation import check_id, decode

_MAX_PROMPT_BYTES = 256 * 1024
_Script = Annotated[str, Meta(max_length=64 * 1024)]
_Tag = Annotated[str, Meta(min_length=1, max_length=64)]


class DatasetItem(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a data set."""

    prompt: str
    id: str = ""
    """Empty: its line's number."""
    image: str = ""
    """A picture, relative to the data set's folder."""
    files: tuple[str, ...] = ()
    """Files, relative to the data set's folder."""
    setup: _Script = ""
    check: _Script = ""
    tags: Annotated[tuple[_Tag, ...], Meta(max_length=20)] = ()


class Dataset(Struct, frozen=True):
    """The items of a file, and what is wrong with its other lines."""

    items: Sequence[DatasetItem]
    problems: Sequence[str] = field(default_factory=tuple[str, ...])


def read_dataset(path: Path) -> Dataset:
    """Read a data set; InvalidArgument if the file cannot be read."""
    items, problems = list[DatasetItem](), list[str]()
    lines_of_ids: dict[str, int] = {}

    def parse(line: bytes, number: int) -> DatasetItem:
        item = _parse(line, number, path.parent)
        if (first := lines_of_ids.setdefault(item.id, number)) != number:
            raise InvalidArgument(f"line {first} has the id {item.id}, too")
        return item

    try:
        items += parse_lines(path, parse, problems.append)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    return Dataset(items, problems)


def _parse(line: bytes, number: int, folder: Path) -> DatasetItem:
    item = decode(line, DatasetItem)
    item = msgspec.structs.replace(item, id=item.id or str(number))
    check_id("id", item.id)
    if not 1 <= len(item.prompt.encode()) <= _MAX_PROMPT_BYTES:
        raise InvalidArgument(f"a prompt has 1 to {_MAX_PROMPT_BYTES:,} bytes")
    if item.setup and file_paths(item, folder):
        raise InvalidArgument("an item has files or a setup script, not both")
    for path in file_paths(item, folder):
        if not path.is_file():
            raise InvalidArgument(f"there is no file {path}")
    return item


def file_paths(item: DatasetItem, folder: Path) -> list[Path]:
    """Return the files that go with an item."""
    names = (*((item.image,) if item.image else ()), *item.files)
    return [folder / name for name in names]


def digest_of(options: BatchOptions, prompts: Sequence[BatchPrompt]) -> bytes:
    """Return the SHA-256 digest by which a batch is known again."""
    digest = hashlib.sha256()
    # Other workers change nothing but the time.
    kept = BatchOptions()
    kept.CopyFrom(options)
    kept.ClearField("worker_count")
    messages: Sequence[Message] = (kept, *prompts)
    for message in messages:
        encoded = message.SerializeToString(deterministic=True)
        digest.update(len(encoded).to_bytes(8) + encoded)
    return digest.digest()


def in_chunks(
    prompts: Sequence[BatchPrompt], most_bytes: int = 512 * 1024
) -> Iterator[list[BatchPrompt]]:
    """Yield prompts in lists that fit into a message."""
    chunk, size_bytes = list[BatchPrompt](), 0
    for prompt in prompts:
        length_bytes = prompt.ByteSize()
        if chunk and size_bytes + length_bytes > most_bytes:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(prompt)
        size_bytes += length_bytes
    if chunk:
        yield chunk
