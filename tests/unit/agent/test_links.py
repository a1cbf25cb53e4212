"""Which addresses a session has come across, word for word, and which the model has made up."""

import pytest

from agent_service.security.url_provenance import MOST, key_of, keys_in, merged

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
