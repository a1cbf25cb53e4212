"""What stands encoded in a text, in plain."""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct

_BASE64 = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{24,4000}={0,2}(?![\w+/=])")
# Parts of mails, files of interfaces and addresses of data say that they are encoded.
_DECLARED = re.compile(
    r"content-transfer-encoding: ?base64\b[^\n]{0,80}\n(?:[^\n]{1,998}\n){0,20}?\s*?\n"
    r"[A-Za-z0-9+/=\s>]+|;base64,[A-Za-z0-9+/=]+"
    r"|(?<![A-Za-z0-9+/=\\])[A-Za-z0-9+/=\\]++\"\s*,\s*\"encoding\"\s*:\s*\"base64\"",
    re.IGNORECASE,
)
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2}){12,2000}(?![0-9a-fA-F])")
_SPACED_HEX = re.compile(
    r"(?<![\w:])(?:(?:0x)?[0-9a-fA-F]{2}[ ,]{1,2}){11,2000}(?:0x)?[0-9a-fA-F]{2}\b"
)
_BITS = re.compile(r"(?:[01]{8}\s+){6,}[01]{8}")
_ESCAPED = re.compile(
    r"(?:(?:%[0-9a-fA-F]{2}){4}|(?:&#x?[0-9a-fA-F]{2,6};){4}|(?:\\u[0-9a-fA-F]{4}){4}"
    r"|(?:\\x[0-9a-fA-F]{2}){4})[^\n]{0,2000}"
)
_CODE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
# Words of orders as they look with each letter thirteen further on.
_TURNED = re.compile(
    r"\b(?:vtaber|qvfertneq|sbetrg|vafgehpgvbaf?|cebzcg|cnffjbeqf?|thvqryvarf)\b", re.IGNORECASE
)
_BACKWARDS = re.compile(r"\b(?:snoitcurtsni|noitcurtsni|erongi|dragersid|tegrof|tpmorp|seluR)\b")
_WORDS = re.compile(r"[A-Za-z][A-Za-z']{0,19}(?=[\s.,;:!?]|$)")
_FUNCTION_WORDS = re.compile(
    r"\b(?:the|and|to|of|is|are|you|your|in|that|for|this|with|what|not|if|on|it)\b", re.IGNORECASE
)
_FEWEST_WORDS = 7
_FEWEST_FUNCTION_WORDS = 3


def is_prose(hidden: str) -> bool:
    """Whether what stood encoded is a sentence of English, which nobody encodes for readers."""
    words = _WORDS.findall(hidden)
    letters = sum(map(len, words)) + len(words)
    return (
        len(words) >= _FEWEST_WORDS
        and letters > len(hidden) * 0.6
        and len(set(_FUNCTION_WORDS.findall(hidden.lower()))) >= _FEWEST_FUNCTION_WORDS
    )


class Encoded(Struct, frozen=True):
    """What stands encoded from `begin` to `end`, in plain."""

    begin: int
    end: int
    plain: str
    is_hidden: bool = False
    """Whether nobody encodes what readers are to see in this way."""


def encoded(text: str) -> Iterator[Encoded]:
    """What stands encoded in a text."""
    declared = [match.span() for match in _DECLARED.finditer(text)]
    for match in _BASE64.finditer(text):
        try:
            data = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4))
        except (binascii.Error, ValueError):
            continue
        is_declared = any(begin <= match.start() < end for begin, end in declared)
        plain = data.decode("utf-8", "replace")
        yield Encoded(match.start(), match.end(), plain, is_hidden=not is_declared)
    for match in (*_HEX.finditer(text), *_SPACED_HEX.finditer(text)):
        digits = re.sub(r"0x|[ ,]", "", match[0])
        plain = bytes.fromhex(digits).decode("utf-8", "replace")
        yield Encoded(match.start(), match.end(), plain, is_hidden=True)
    for match in _BITS.finditer(text):
        letters = (chr(int(bits, 2)) for bits in match[0].split())
        yield Encoded(match.start(), match.end(), "".join(letters), is_hidden=True)
    for match in _ESCAPED.finditer(text):
        yield Encoded(match.start(), match.end(), _unescaped(match[0]))
    yield from _disguised(text)


def _unescaped(text: str) -> str:
    text = html.unescape(unquote(text)) if "%" in text or "&#" in text else text
    return _CODE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)


def _disguised(text: str) -> Iterator[Encoded]:
    """Lines whose letters are turned by thirteen, or that stand backwards."""
    for pattern in (_TURNED, _BACKWARDS):
        end = -1
        for match in pattern.finditer(text):
            if match.start() < end:
                continue
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            line = text[begin:end]
            plain = codecs.encode(line, "rot13") if pattern is _TURNED else line[::-1]
            yield Encoded(begin, end, plain)
