"""Texts that people save with any editor."""

import codecs

import pytest

from services.home.texts import decode_text


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_a_text_is_the_same_from_any_editor(mark: bytes, encoding: str) -> None:
    assert decode_text(mark + "a €\r\nb\rc\n".encode(encoding)) == "a €\nb\nc\n"


@pytest.mark.parametrize("data", [b"caf\xe9", codecs.BOM_UTF16_LE + b"a"])
def test_what_is_no_text_is_not_guessed(data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decode_text(data)
    assert "\ufffd" in decode_text(data, "replace")
