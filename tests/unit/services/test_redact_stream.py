"""A secret that comes in pieces is not shown in any, and ordinary text is not held up."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.redact import MASK, Redactor
from services.redact_stream import RedactedStream
from tests.unit.services.test_redact import SHAPED, spellings

VALUES = tuple(f"canary.value.{number}.{number * 7919:012x}" for number in range(30))
PROSE = (
    "The quick brown fox jumps over the lazy dog; then it says: nothing happened here today. "
    "Great skies are green, and every node of the graph has an unknown key.\n\n- first\n- second\n"
    "```python\nfor name in names:\n    print(name)\n```\n"
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
@settings(max_examples=200, deadline=None)
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
        assert behind <= 8, said
        late += [token] if behind else []
    assert not behind + len(stream.finish())
    assert len(late) <= len(tokens) // 20, late


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
