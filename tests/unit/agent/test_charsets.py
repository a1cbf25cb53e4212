"""Encodings of pages mean what browsers take them for."""

import pytest

from agent_service.security.fetch.charsets import decode, encoding_of

FRENCH, CHINESE, JAPANESE = "l\N{RIGHT SINGLE QUOTATION MARK}été — “déjà vu” 5 €", "朱镕基", "①髙橋"


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", FRENCH),
        ("US-ASCII", "cp1252", FRENCH),
        ("x-cp1252", "cp1252", FRENCH),
        ("gb2312", "gbk", CHINESE),
        ("x-gbk", "gbk", CHINESE),
        ("Shift_JIS", "cp932", JAPANESE),
        ("x-sjis", "cp932", JAPANESE),
        ("windows-31j", "cp932", JAPANESE),
        ("ks_c_5601-1987", "cp949", "똠방"),
        ("iso-8859-9", "cp1254", "İş €"),
        ("iso-8859-8-i", "iso8859-8", "שלום"),
        ("windows-874", "cp874", "ก €"),
        ("utf-16", "utf-16-le", FRENCH),
        ("", "utf-8", FRENCH),
        ("no-such-thing", "utf-8", FRENCH),
        ("unicode_escape", "utf-8", "\\n"),
        ("hex", "utf-8", FRENCH),
    ],
)
def test_a_label_means_the_encoding_that_browsers_use(label: str, encoding: str, text: str) -> None:
    data = text.encode(encoding)
    assert decode(data, encoding_of(data, label)) == text


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_stronger_than_the_label(mark: str) -> None:
    data = FRENCH.encode(mark)
    assert decode(data, encoding_of(data, "iso-8859-1")) == FRENCH


@pytest.mark.parametrize(
    "declaration",
    [
        '<html><meta charset="iso-8859-1">',
        "<META http-equiv='Content-Type' content='text/html; charset=iso-8859-1'>",
        '<?xml version="1.0" encoding="ISO-8859-1"?>',
    ],
)
def test_a_page_without_a_label_says_its_encoding_itself(declaration: str) -> None:
    data = (declaration + FRENCH).encode("cp1252")
    assert decode(data, encoding_of(data, "")).endswith(FRENCH)
    assert encoding_of(data, "koi8-r") == "koi8-r"


def test_a_page_that_can_be_read_bytewise_is_not_utf_16() -> None:
    data = ('<meta charset="utf-16">' + FRENCH).encode()
    assert encoding_of(data, "") == "utf-8"
