"""Counts tokens with a tokenizer of Hugging Face's format, from a file or an installed package."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.home.paths import expand
from services.validation import decode

FILE = "tokenizer.json"
_REMEMBERED_CHARS = 4_000_000
_UNKNOWN = 2**31
_WORDS = re.compile(r"\s*\S*(?:[^\S ]\s*\S*)*")
"""Ends where U+0020 follows a character that is not white space."""
_PROBE = (
    'ab cd  ef. (gh) i\'s 12 3½ é 好 吗\t x\n y\n  z "q" <a> # _b -c /d \\n  1.5e \n\n  e '
    "don't I'll'ab e\u0301l→(m) https://n.o/p?q=r "
) * 9

Split = Callable[[str], Sequence[str]]


def _whole(text: str) -> Sequence[str]:
    return (text,)


class _File(Struct, frozen=True):
    model: msgspec.Raw


class TokenCounter:
    """Counts the tokens of texts, of each piece once while it is remembered."""

    def __init__(
        self, count_all: Callable[[Sequence[str]], Sequence[int]], split: Split = _whole
    ) -> None:
        """`split` cuts where no token crosses, of texts whose tokens each cover at least a byte."""
        self._count_all = count_all
        self._split = split
        self._known = dict[str, int]()
        self._known_chars = 0

    def count(self, texts: Iterable[str]) -> Mapping[str, int]:
        """Return how many tokens each text has; many together are faster."""
        if self._known_chars > _REMEMBERED_CHARS:
            self._known.clear()
            self._known_chars = 0
        known, pieces = self._known, {text: self._split(text) for text in texts}
        if new := list(set(chain.from_iterable(pieces.values())).difference(known)):
            known.update(zip(new, self._count_all(new), strict=True))
            self._known_chars += sum(map(len, new))
        return {text: sum(map(known.__getitem__, each)) for text, each in pieces.items()}

    def least(self, text: str) -> int:
        """Return at most as many as there are, without counting."""
        return 0 if self._split is _whole else len(text.split())

    def most(self, text: str) -> int:
        """Return at least as many as there are, without counting."""
        is_bounded = self._split is not _whole or text.isascii()
        return len(text.encode(errors="replace")) if is_bounded else _UNKNOWN


def load_counter(name: str) -> TokenCounter:
    """Load a tokenizer.

    `name` is a tokenizer.json, a model's folder, or an installed Python package with the file;
    nothing is downloaded.
    """
    path = locate(name)
    from tokenizers import Tokenizer

    try:
        decode(path.read_bytes(), _File)
    except (OSError, msgspec.DecodeError):
        raise InvalidArgument(f"{path} is no tokenizer of Hugging Face's format") from None
    tokenizer: Any = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count_all(texts: Sequence[str]) -> Sequence[int]:
        return [len(each) for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    # Normalization may make more of a character.
    is_plain = str(tokenizer.normalizer) in {"None", "Sequence(normalizers=[])"}
    added = tokenizer.get_added_tokens_decoder().values()
    joins = any(" " in token.content or token.rstrip for token in added)
    is_split = is_plain and not joins and _splits_safely(tokenizer)
    return TokenCounter(count_all, _WORDS.findall if is_split else _whole)


def _splits_safely(tokenizer: Any) -> bool:
    """Return whether no token reaches from one word of a text into the next."""
    first = tokenizer.pre_tokenizer

    def tokens(text: str) -> list[str]:
        return [token for token, _ in first.pre_tokenize_str(text)]

    words = _WORDS.findall(_PROBE)
    return first is not None and tokens(_PROBE) == [it for word in words for it in tokens(word)]


def locate(name: str) -> Path:
    """Return the file of a tokenizer; raises InvalidArgument, or FailedPrecondition."""
    if find_spec("tokenizers") is None:
        raise FailedPrecondition(
            'counting tokens needs an extra: pip install "hermes-services[research]"'
        )
    path = expand(name)
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
