"""Counts tokens with a tokenizer of Hugging Face's format, from a file or an installed package."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.validation import decode

FILE = "tokenizer.json"
_REMEMBERED_CHARS = 8_000_000
_UNKNOWN = 2**31


class _File(Struct, frozen=True):
    model: msgspec.Raw


class TokenCounter:
    """Counts the tokens of texts, of each text once while it is remembered."""

    def __init__(
        self, count_all: Callable[[Sequence[str]], Sequence[int]], *, is_plain: bool = True
    ) -> None:
        """`is_plain` says that a token stands for at least a byte."""
        self._count_all = count_all
        self._is_plain = is_plain
        self._known: dict[str, int] = {}
        self._known_chars = 0

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        found = self._known.get(text)
        return self.learn((text,))[text] if found is None else found

    def most(self, text: str) -> int:
        """Return at least as many as there are, without counting."""
        is_plain = self._is_plain or text.isascii()
        return len(text.encode(errors="replace")) if is_plain else _UNKNOWN

    def learn(self, texts: Iterable[str]) -> Mapping[str, int]:
        """Count texts together, which is faster."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if self._known_chars > _REMEMBERED_CHARS:
            self._known.clear()
            self._known_chars = 0
        self._known.update(zip(new, self._count_all(new), strict=True))
        self._known_chars += sum(map(len, new))
        return self._known


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
    try:
        decode(path.read_bytes(), _File)
    except msgspec.DecodeError:
        raise InvalidArgument(f"{path} is no tokenizer of Hugging Face's format") from None
    tokenizer: Any = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count_all(texts: Sequence[str]) -> Sequence[int]:
        # It uses all cores.
        return [len(each) for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    # Normalization may make more of a character.
    is_plain = str(tokenizer.normalizer) in {"None", "Sequence(normalizers=[])"}
    return TokenCounter(count_all, is_plain=is_plain)


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
