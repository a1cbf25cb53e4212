"""Decodes pages as browsers do: https://encoding.spec.whatwg.org."""

import codecs
import re

from services.home.texts import mark_of

_BROADER = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-11": "cp874",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-16": "utf-16-le",
}
"""Labels of pages mean these larger encodings of the same family."""
_OF_PAGES = re.compile(
    r"utf-8|utf-16-[bl]e|cp(?:866|874|932|949|125\d)|iso8859-\d+|koi8-[ru]|mac-(?:cyrillic|roman)|"
    r"gb18030|big5hkscs|euc_jp|iso2022_jp"
)
_DECLARED_BYTES = 1024
_DECLARED = re.compile(
    rb"<meta\s[^>]*charset\s*=[\s\"']*([\w.:-]+)|^\s*<\?xml[^>]*encoding\s*=\s*[\"']([\w.:-]+)",
    re.I,
)


def encoding_of(data: bytes, label: str) -> str:
    """Return the codec of a page by its mark, its label, or what it says itself; else empty."""
    if marked := mark_of(data)[1]:
        return marked
    if not (found := _codec(label)) and (declared := _declared(data)):
        found = _codec(declared)
        # What could be read as bytes is not in units of two.
        return "utf-8" if found.startswith("utf-16") else found
    return found


def decode(data: bytes, encoding: str) -> str:
    """Decode text; UTF-8 if there is no encoding, and without a mark."""
    return data.decode(encoding or "utf-8", errors="replace").removeprefix("\ufeff")


def _declared(data: bytes) -> str:
    found = _DECLARED.search(data, 0, _DECLARED_BYTES)
    return (found[1] or found[2]).decode("ascii") if found else ""


def _codec(label: str) -> str:
    name = label.strip().lower()
    shorter = (
        name.replace("windows-31j", "cp932")
        .replace("x-", "")
        .replace("windows-", "cp")
        .replace("dos-", "cp")
    )
    shorter = re.sub(r"^iso-?8859-?(\d+)(?:-[ei])?$", r"iso8859-\1", shorter)
    for each in (name, shorter):
        try:
            found = codecs.lookup(each).name
        except (LookupError, ValueError):
            continue
        found = _BROADER.get(found, found)
        return found if _OF_PAGES.fullmatch(found) else ""
    return ""
