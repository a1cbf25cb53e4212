"""Known values are found in base64 and hexadecimal digits, also across lines and separators."""

import base64
from collections.abc import Callable
from textwrap import wrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.redaction.redactor import MASK, Redactor

SECRET = "canary.api.key.Zq8vTr2nWx5Lp0Gs"
BEFORE, AFTER = b"Here is what was found:\nthe key = ", b"\nand nothing else, as far as we know.\n"


def rows(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def mixed_case(data: bytes) -> str:
    digits = data.hex()
    return "".join(d.upper() if at % 3 else d for at, d in enumerate(digits))


ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "base64 in lines of 76": lambda data: base64.encodebytes(data).decode(),
    "base64 in lines of 20": lambda data: "\n".join(wrap(base64.b64encode(data).decode(), 20)),
    "base64 in lines of 64, CRLF": lambda d: "\r\n".join(wrap(base64.b64encode(d).decode(), 64)),
    "base64 in lines, indented": lambda d: "\n  ".join(wrap(base64.b64encode(d).decode(), 32)),
    "base64 in lines in JSON": lambda d: "\\n".join(wrap(base64.b64encode(d).decode(), 32)),
    "base64 for URLs in lines": lambda d: "\n".join(wrap(base64.urlsafe_b64encode(d).decode(), 40)),
    "hex": bytes.hex,
    "hex, mixed case": mixed_case,
    "hex in lines": lambda data: "\n".join(wrap(data.hex(), 60)),
    "hex with colons": lambda data: data.hex(":"),
    "hex with colons, capitals": lambda data: data.hex(":").upper(),
    "hex with dashes": lambda data: data.hex("-"),
    "hex with spaces": lambda data: data.hex(" "),
    "hex in lines of 16": lambda data: "\n".join(row.hex(" ") for row in rows(data, 16)),
    "escapes": lambda data: "".join(f"\\x{byte:02x}" for byte in data),
    "numbers of C": lambda data: ",\n  ".join(
        ", ".join(f"0x{byte:02x}" for byte in row) for row in rows(data, 12)
    ),
}


def left_of(secret: str, encode: Callable[[bytes], str], clean: str) -> list[str]:
    """What a clean text still has of a secret: parts of it, and of how it is encoded alone."""
    words = encode(secret.encode()).split()
    alone = [each for each in words if len(each) >= 8 and not each.startswith("0000")]
    plain = [secret[at : at + 6] for at in range(len(secret) - 5)]
    return [each for each in (*plain, *alone) if each in clean.replace(MASK, "")]


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("shift", range(4))
def test_a_value_is_found_in_an_encoding(name: str, shift: int) -> None:
    encode, secret = ENCODINGS[name], SECRET + "/x" * shift
    data = BEFORE + b"." * shift + secret.encode() + AFTER
    text = f"$ show it\n{encode(data)}\n$ done\n"
    clean = Redactor([secret]).redact(text)
    assert MASK in clean
    assert clean.startswith("$ show it\n")
    assert clean.endswith("\n$ done\n")
    assert not left_of(secret, encode, clean)
    assert Redactor(["another.value.12345"]).redact(text) == text


@given(
    st.sampled_from(sorted(ENCODINGS)),
    st.binary(max_size=80),
    st.text("abcdefgXYZ0123456789./+_=-@", min_size=12, max_size=70),
    st.binary(max_size=80),
)
@example("base64 in lines in JSON", bytes(13), "000000000000", b"")
@settings(max_examples=300, deadline=None)
def test_any_value_is_found_in_any_encoding(
    name: str, before: bytes, secret: str, after: bytes
) -> None:
    encode = ENCODINGS[name]
    data = b"".join((before, secret.encode(), after))
    assert MASK in Redactor([secret]).redact(f"output:\n{encode(data)}\n")


@pytest.mark.parametrize(
    "text",
    [
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "0000000: 0001 0203 0405 0607  ........\n0000008: 0809 0a0b 0c0d 0e0f  ........",
        "100%25 of a%20b, 5% and 7 % and %zz",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ\nabcdefghijklmnopqrstuvwxyz\n0123456789",
        "\ud800 is half of a letter, %41%42%43 and 00:11:22:33:44:55:66:77:88:99",
    ],
)
def test_what_looks_like_an_encoding_stays(text: str) -> None:
    assert Redactor([SECRET]).redact(text) == text


@pytest.mark.parametrize(
    "part", ["%", "a%41", "0x", "00 ", "A\n", "ABCDEFGHIJKLMNOP\n", "00000000: "]
)
@pytest.mark.slow
def test_a_long_text_of_one_part_takes_no_longer_than_its_length(part: str) -> None:
    text = part * (500_000 // len(part))
    assert Redactor([SECRET]).redact(text) == text
