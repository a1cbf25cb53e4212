"""Pages: their encodings, and the addresses that somebody has said."""

import pytest

from agent_service.security.fetch.charsets import decode, encoding_of
from agent_service.security.url_provenance import MOST, key_of, keys_in, merged

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


TEXT = """See https://docs.example.com/a/b?page=2#top, (http://other.example/x_(y)) and
<a href="https://example.org/q?a=1&b=2">it</a> or www.example.net/path. Also [1]: http://192.0.2.7:8080/z"""


@pytest.mark.parametrize(
    "url",
    [
        *("https://docs.example.com/a/b?page=2", "http://docs.example.com/a/b?page=2#end"),
        *("https://other.example/x_(y)", "https://example.org/q?a=1&b=2"),
        *("https://www.example.net/path", "https://www.example.net/path/", "HTTPS://EXAMPLE.ORG"),
        *("http://192.0.2.7:8080/z", "https://example.org/", "https://docs.example.com"),
    ],
)
def test_what_stands_in_a_text_is_known(url: str) -> None:
    assert key_of(url) in keys_in(TEXT)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://docs.example.com/a/b?page=3",
            "https://docs.example.com/a",
            "https://example.com",
        ),
        *(
            "https://example.org/q?a=1&b=2&c=secret",
            "https://evil.example.org/",
            "ftp://example.org",
        ),
        *("https://secret.www.example.net/path", "https://192.0.2.7/z", "not an address", ""),
        "https://example.org/Q?a=1&b=2",
    ],
)
def test_what_was_added_to_it_is_not(url: str) -> None:
    assert key_of(url) not in keys_in(TEXT)


def test_what_is_kept_is_bounded_and_the_newest_longest() -> None:
    old = [f"{number}" for number in range(MOST)]
    kept = merged(old, ["0", "new"])
    assert len(kept) == MOST
    assert kept[-2:] == ["0", "new"]
    assert "1" not in kept
