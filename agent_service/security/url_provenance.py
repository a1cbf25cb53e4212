"""Addresses in texts, and what is kept of those that a session has come across."""

import hashlib
import re
from collections.abc import Iterable

STATE = "links"
"""Name of the session's value that has the keys of addresses, the newest last."""
MOST = 4_000
"""Keys that are kept of a session."""
MOST_OF_TEXT = 500

_ADDRESS = re.compile(
    r"(?:https?://|(?<![\w@./-]))((?:[\w-]+\.)+[a-z]{2,}|\d+(?:\.\d+){3})(:\d+)?"
    r"((?:[/?#][^\s<>\"'`\\^{|}]*)?)",
    re.IGNORECASE,
)
_ENDINGS = tuple(".,;:!?*_)]")
_MOST_ENDINGS = 4


def keys_in(text: str) -> list[str]:
    """The keys of the addresses in a text, as they stand there and without what ends a sentence.

    Of each address its host alone is one as well.
    """
    found: dict[str, None] = {}
    for match in _ADDRESS.finditer(text):
        host, port, rest = match[1].lower(), match[2] or "", match[3]
        found[_key(host, port, "")] = found[_key(host, port, rest)] = None
        for _ in range(_MOST_ENDINGS):
            if not rest.endswith(_ENDINGS):
                break
            rest = rest[:-1]
            found[_key(host, port, rest)] = None
        if len(found) >= MOST_OF_TEXT:
            break
    return list(found)


def key_of(url: str) -> str:
    """The key of one address; empty where it is none."""
    match = _ADDRESS.fullmatch(url.strip())
    return "" if match is None else _key(match[1].lower(), match[2] or "", match[3])


def merged(known: Iterable[str], new: Iterable[str]) -> list[str]:
    """What is kept once new keys have come."""
    fresh = dict.fromkeys(new)
    return [*(key for key in known if key not in fresh), *fresh][-MOST:]


def _key(host: str, port: str, path: str) -> str:
    path = path.partition("#")[0].rstrip("/")
    return hashlib.sha256(f"{host}{port}{path}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
