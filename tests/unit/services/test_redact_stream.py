"""A secret that comes in pieces is not shown in any, and ordinary text is not held up."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.redaction.redactor import MASK, Redactor
from services.redaction.stream import RedactedStream
from tests.unit.services.test_redact import SHAPED, spellings
from tests.unit.services.test_redact_encodings import AFTER, BEFORE, ENCODINGS, SECRET, left_of

VALUES = tuple(f"canary.value.{number}.{number * 7919:012x}" for number in range(30))
PROSE = (
    "The quick brown fox jumps over the lazy dog; then it says: nothing happened here today. "
    "Great skies are green, and every node of the graph has an unknown key.\n\n- first\n- second\n"
    "```python\nfor name in names:\n    print(name)\n```\n"
)
STREAMED = [
    name
    for name in ENCODINGS
    if name not in ("hex with spaces", "hex in lines of 16", "numbers of C", "hex in lines")
]
"""Bytes apart are found once they are whole, not while they come."""

NUMBERS = (
    "On page 63 of 120, at 10:30 (2026-11-27), 5% of 3,000 files; 1. first 2. second\n"
    "| 3 | 61 | 72 |\n|---|---|\n| 63 | 4 | 5 |\nAdd 63 cups. 0x1F and 255, 100 % and 20%.\n"
    "  def add(x): return x\n  63 beads\n2026: be careful\n1234: a b\n"
    "  - take 3 eggs, beat them for 63 s\n   and  5 more  spaces \n00:10:20 then 2026-01  and\n"
    "https://example.org/a%20b?x=1%2C2\n#ffcc00 color: #636363; 9f86d081884c7d659a2feaa0c55ad015\n"
)


def pieces(text: str, longest: int, seed: int = 1) -> list[str]:
    chance, at, found = random.Random(seed), 0, list[str]()
    while at < len(text):
        size = chance.randint(1, longest)
        found.append(text[at : at + size])
        at += size
    return found


def shown(redactor: Redactor, parts: list[str]) -> list[str]:
    stream = RedactedStream(redactor)
    return [*(stream.feed(part) for part in parts), stream.finish()]


@pytest.mark.parametrize("longest", [1, 2, 5, 40])
@pytest.mark.parametrize("name", SHAPED)
def test_a_shape_in_pieces_is_replaced_whole(name: str, longest: int) -> None:
    redactor = Redactor()
    for around in ("the key is {} and so on", '{{"a": "{}"}}', "key={}\nnext", "https://x/{}/go "):
        text = around.format(SHAPED[name])
        assert "".join(shown(redactor, pieces(text, longest))) == redactor.redact(text)


@pytest.mark.parametrize("longest", [1, 2, 5, 40])
@pytest.mark.parametrize("value", VALUES[:3])
def test_a_known_value_in_pieces_is_replaced_in_every_spelling(value: str, longest: int) -> None:
    redactor = Redactor(VALUES)
    for spelling in spellings(value):
        text = f"before {spelling} after"
        assert "".join(shown(redactor, pieces(text, longest))) == redactor.redact(text)


@pytest.mark.parametrize("longest", [1, 5, 40])
@pytest.mark.parametrize("name", STREAMED)
def test_a_known_value_in_an_encoding_is_shown_in_no_piece(name: str, longest: int) -> None:
    encode = ENCODINGS[name]
    for shift in (0, 3):
        secret = SECRET + "/x" * shift
        redactor = Redactor([secret])
        data = BEFORE + b"." * shift + secret.encode() + AFTER
        text = f"$ show it\n{encode(data)}\n$ done\n"
        said = "".join(shown(redactor, pieces(text, longest)))
        assert not left_of(secret, encode, said)
        assert said == redactor.redact(text)


@given(
    st.sampled_from(STREAMED),
    st.binary(max_size=400),
    st.text("abcdefgXYZ0123456789./+_=-@", min_size=12, max_size=70),
    st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_any_value_in_an_encoding_is_shown_in_no_piece(
    name: str, before: bytes, secret: str, longest: int
) -> None:
    text = f"It is:\n{ENCODINGS[name](before + secret.encode())}\nThat is all.\n"
    redactor = Redactor([secret])
    said = "".join(shown(redactor, pieces(text, longest)))
    assert said == redactor.redact(text)


@pytest.mark.parametrize("longest", [1, 3])
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abc.def-123456 x",
        "postgresql+psycopg://me:hunter2@db:5432/h and redis://:pw@cache",
        '{"client_secret": "abcdefgh12345678"}',
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+x and",
        "password = get_password_from_keyring1(user)",
        "-----BEGIN CERTIFICATE-----\nMIIB1234\n-----END CERTIFICATE-----\n",
        f"63:61:6e and {VALUES[0].encode().hex(':')}; {VALUES[0].encode().hex().upper()}",
    ],
)
def test_the_words_around_a_secret_are_shown(text: str, longest: int) -> None:
    redactor = Redactor(VALUES)
    assert "".join(shown(redactor, pieces(text, longest))) == redactor.redact(text)


@given(
    st.lists(st.sampled_from([*SHAPED.values(), *VALUES, "word", " ", "\n", ": ", "=", "-"])),
    st.integers(1, 30),
    st.integers(),
)
@settings(max_examples=60, deadline=None)
def test_no_secret_is_shown_however_it_is_cut(parts: list[str], longest: int, seed: int) -> None:
    redactor = Redactor(VALUES)
    said = "".join(shown(redactor, pieces(" ".join(parts), longest, seed)))
    for secret in (*SHAPED.values(), *VALUES):
        assert secret not in said
        assert secret[-20:] not in said or secret not in parts


def test_ordinary_text_is_shown_as_it_comes() -> None:
    tokens = re.findall(r"\s?\w+|[^\w\s]|\s", PROSE)
    stream, late = RedactedStream(Redactor(VALUES)), list[str]()
    behind = 0
    for token in tokens:
        behind += len(token) - len(said := stream.feed(token))
        assert behind <= 12, said
        late += [token] if behind else []
    assert not behind + len(stream.finish())
    assert len(late) <= len(tokens) // 5, late


def test_numbers_and_addresses_wait_for_their_end_only() -> None:
    stream, behind = RedactedStream(Redactor(VALUES)), 0
    for token in re.findall(r"\s?\w+|[^\w\s]|\s", NUMBERS):
        behind += len(token) - len(stream.feed(token))
        assert behind <= 40, token


def test_the_first_word_waits_for_nothing() -> None:
    for word in ("Hello", "The", "I", "Sure", "Great", "Yes", "Als"):
        assert RedactedStream(Redactor(VALUES)).feed(word) == word


def test_what_never_ends_is_shown_in_the_end() -> None:
    stream = RedactedStream(Redactor())
    said = "".join(stream.feed("sk-" + "a" * 1000) for _ in range(100)) + stream.finish()
    assert len(said) == 100 * 1003


def test_a_long_key_takes_time_by_its_length() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIabc123\n" * 5000
    stream = RedactedStream(Redactor())
    said = "".join(stream.feed(part) for part in pieces(key, 5)) + stream.finish()
    assert said == MASK


@pytest.mark.parametrize("longest", [1, 4, 40])
def test_a_name_that_begins_as_a_key_does_is_shown(longest: int) -> None:
    text = "use sk-button-primary-2x, and sk-container-id-12-toggleable for npm_config_gyp_v10_path"
    assert "".join(shown(Redactor(VALUES), pieces(text, longest))) == text
