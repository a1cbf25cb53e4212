"""URLs in texts, and the record of those that a session has seen."""

import hashlib
import re
from collections.abc import Iterable

STATE = "links"
"""Name of the session's value with the keys of URLs, the newest last."""
MOST = 4_000
MOST_OF_TEXT = 500

_ADDRESS = re.compile(
    r"(?:https?://|(?<![\w@./-]))((?:[\w-]+\.)+[a-z]{2,}|\d+(?:\.\d+){3})(:\d+)?"
    r"((?:[/?#][^\s<>\"'`\\^{|}]*)?)",
    re.IGNORECASE,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s<>\"'`\\^{|}]+", re.IGNORECASE)
_ENDINGS = tuple(".,;:!?*_)]")
_MOST_ENDINGS = 4


def keys_in(text: str) -> list[str]:
    """The keys of the URLs in a text, without trailing punctuation, and of their hosts."""
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


def urls_in(text: str) -> list[str]:
    """The URLs in a text that name their scheme."""
    return _URL.findall(text)


def key_of(url: str) -> str:
    """The key of a URL; empty if it is none."""
    match = _ADDRESS.fullmatch(url.strip())
    return "" if match is None else _key(match[1].lower(), match[2] or "", match[3])


def merged(known: Iterable[str], new: Iterable[str]) -> list[str]:
    """The keys to keep after new ones were added."""
    fresh = dict.fromkeys(new)
    return [*(key for key in known if key not in fresh), *fresh][-MOST:]


def _key(host: str, port: str, path: str) -> str:
    path = path.partition("#")[0].rstrip("/")
    return hashlib.sha256(f"{host}{port}{path}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
