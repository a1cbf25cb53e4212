"""Counts tokens with a tokenizer of Hugging Face's format, from a file or an installed package."""

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
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
_PARTS = re.compile(r"[^A-Za-z]*(?:[A-Za-z]+[^\x00-\x7f][^A-Za-z]*)*[A-Za-z]*")
"""Ends where another ASCII character follows a letter, as in `a.b`."""
_PROBE = (
    'ab cd  ef. (gh) i\'s 12 3½ é 好 吗\t x\n y\n  z "q" <a> # _b -c /d \\n  1.5e \n\n  e '
    "don't I'll'ab a.b(c)d_e f1g h\ni\tj caf\u00e9.k e\u0301l→(m) https://n.o/p?q=r "
    + " ".join(f"a{sign}b" for sign in string.punctuation)
) * 9

Split = Callable[[str], Sequence[str]]


def _whole(text: str) -> Sequence[str]:
    return (text,)


class _File(Struct, frozen=True):
    model: msgspec.Raw


class _Known(dict[str, int]):
    """The tokens of each piece; 0 for one that is new, which becomes a gap."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[str] = []

    def __missing__(self, piece: str) -> int:
        self.gaps.append(piece)
        return 0


class TokenCounter:
    """Counts the tokens of texts, of each piece once while it is remembered."""

    def __init__(
        self,
        count_all: Callable[[Sequence[str]], Sequence[int]],
        *,
        is_plain: bool = True,
        split: Split = _whole,
    ) -> None:
        """`is_plain`: each token covers at least a byte. `split` cuts where no token crosses."""
        self._count_all = count_all
        self._is_plain = is_plain
        self._split = split
        self._known = _Known()
        self._known_chars = 0

    def count(self, texts: Iterable[str]) -> Mapping[str, int]:
        """Return how many tokens each text has; many together are faster."""
        if self._known_chars > _REMEMBERED_CHARS:
            self._known.clear()
            self._known_chars = 0
        known, gaps = self._known.__getitem__, self._known.gaps
        gaps.clear()
        counts, gaps_of = dict[str, int](), dict[str, Sequence[str]]()
        for text in dict.fromkeys(texts):
            gap_count = len(gaps)
            counts[text] = sum(map(known, self._split(text)))
            if len(gaps) > gap_count:
                gaps_of[text] = gaps[gap_count:]
        if gaps:
            new = [*dict.fromkeys(gaps)]
            self._known.update(zip(new, self._count_all(new), strict=True))
            self._known_chars += sum(map(len, new))
            for text, pieces in gaps_of.items():
                counts[text] += sum(map(known, pieces))
        return counts

    def least(self, text: str) -> int:
        """Return at most as many as there are, without counting."""
        return 0 if self._split is _whole else len(text.split())

    def most(self, text: str) -> int:
        """Return at least as many as there are, without counting."""
        is_plain = self._is_plain or text.isascii()
        return len(text.encode(errors="replace")) if is_plain else _UNKNOWN


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
    if not is_plain or any(" " in token.content or token.rstrip for token in added):
        return TokenCounter(count_all, is_plain=is_plain)
    special = {token.content[0] for token in added}

    def parts(word: str) -> Sequence[str]:
        return _whole(word) if special.intersection(word) else _PARTS.findall(word)

    inner = TokenCounter(count_all, split=parts)  # most parts of an unknown word are known

    def count_words(texts: Sequence[str]) -> Sequence[int]:
        return [*inner.count(texts).values()]  # in order, as no word is given twice

    count = count_words if _splits_safely(tokenizer, _PARTS) else count_all
    split = _WORDS.findall if _splits_safely(tokenizer, _WORDS) else _whole
    return TokenCounter(count, split=split)


def _splits_safely(tokenizer: Any, pieces: re.Pattern[str]) -> bool:
    """Return whether no token reaches from one piece of a text into the next."""
    first = tokenizer.pre_tokenizer

    def tokens(text: str) -> list[str]:
        return [token for token, _ in first.pre_tokenize_str(text)]

    split = pieces.findall(_PROBE)
    return first is not None and tokens(_PROBE) == [it for piece in split for it in tokens(piece)]


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
