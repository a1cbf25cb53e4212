"""Counts tokens with a tokenizer of Hugging Face's format, from a file or an installed package."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.validation import json_object

FILE = "tokenizer.json"


class TokenCounter(Struct, frozen=True):
    """Counts the tokens of texts."""

    count: Callable[[str], int]
    most: Callable[[str], int]
    """At least as many as there are, found out fast."""


def load_counter(name: str) -> TokenCounter:
    """Load a tokenizer.

    `name` is a tokenizer.json, a model's folder, or an installed Python package with the file;
    nothing is downloaded.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise FailedPrecondition(
            'counting tokens needs an extra: pip install "hermes-services[research]"'
        ) from None
    path = _locate(name)
    if "model" not in (json_object(path.read_bytes()) or {}):
        raise InvalidArgument(f"{path} is no tokenizer of Hugging Face's format")
    tokenizer: Any = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    # A token stands for at least a byte, unless normalization makes more of a character.
    is_plain = str(tokenizer.normalizer) in {"None", "Sequence(normalizers=[])"}

    def most(text: str) -> int:
        return len(text.encode(errors="replace")) if is_plain or text.isascii() else count(text)

    return TokenCounter(count, most)


def _locate(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    folders = [path] if path.is_dir() else []
    if not folders and name.isidentifier() and (package := find_spec(name)):
        folders = list(map(Path, package.submodule_search_locations or ()))
    for folder in folders:
        if found := sorted(folder.rglob(FILE)):
            return found[0]
    raise InvalidArgument(
        f"there is no tokenizer {name!r}; give a {FILE}, a folder or a Python package with one"
    )
