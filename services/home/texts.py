"""Texts that people edit, with any editor: UTF-8, or UTF-16 with a byte order mark."""

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def mark_of(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of a text and the encoding that it stands for; empty if none."""
    return next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))


def decode_text(data: bytes, errors: str = "strict") -> str:
    """Return a text without its mark, and with `\\n` as line ends; else UnicodeDecodeError."""
    mark, encoding = mark_of(data)
    text = data[len(mark) :].decode(encoding or "utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")
