"""Known values are found in what encoders, dumps and wrapped lines make of them."""

import base64
import gc
import random
import subprocess
import time
from collections.abc import Callable
from textwrap import wrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.redact import MASK, Redactor

SECRET = "canary.api.key.Zq8vTr2nWx5Lp0Gs"
BEFORE, AFTER = b"Here is what was found:\nthe key = ", b"\nand nothing else, as far as we know.\n"


def rows(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def seen(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def xxd(data: bytes, group: int = 2, columns: int = 16) -> str:
    lines = [
        f"{at * columns:08x}: {' '.join(each.hex() for each in rows(row, group))}  {seen(row)}"
        for at, row in enumerate(rows(data, columns))
    ]
    return "\n".join(lines)


def hexdump(data: bytes) -> str:
    lines = [
        f"{at * 16:08x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  |{seen(row)}|"
        for at, row in enumerate(rows(data, 16))
    ]
    return "\n".join(lines)


def numbers(data: bytes, size: int, show: str, address: str = "07o") -> str:
    """Numbers of some bytes each as they are in memory, as `od` and plain `hexdump` have them."""
    lines: list[str] = []
    for at, row in enumerate(rows(data, 16)):
        words = (int.from_bytes(each, "little") for each in rows(row, size))
        offset = format(at * 16, address) if address else ""
        lines.append(" ".join((offset, *(format(word, show) for word in words))))
    return "\n".join(lines)


def letters(data: bytes) -> str:
    """As `od -c` has them."""
    known = {0: "\\0", 9: "\\t", 10: "\\n", 13: "\\r"}
    lines: list[str] = []
    for at, row in enumerate(rows(data, 16)):
        said = [known.get(b) or (chr(b) if 32 <= b < 127 else f"{b:03o}") for b in row]
        lines.append(f"{at * 16:07o}" + "".join(each.rjust(4) for each in said))
    return "\n".join(lines)


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
    "percent signs": lambda data: "".join(f"%{byte:02X}" for byte in data),
    "percent signs, small": lambda data: "".join(f"%{byte:02x}" for byte in data),
    "some percent signs": lambda data: "".join(
        f"%{byte:02x}" if at % 4 == 1 or byte < 48 else chr(byte) for at, byte in enumerate(data)
    ),
    "xxd": xxd,
    "xxd -g 1": lambda data: xxd(data, 1),
    "xxd -g 4 -c 32": lambda data: xxd(data, 4, 32),
    "xxd -c 8": lambda data: xxd(data, 2, 8),
    "hexdump -C": hexdump,
    "hexdump": lambda data: numbers(data, 2, "04x", "07x"),
    "od": lambda data: numbers(data, 2, "06o"),
    "od -b": lambda data: numbers(data, 1, "03o"),
    "od -x": lambda data: numbers(data, 2, "04x"),
    "od -t x1": lambda data: numbers(data, 1, "02x"),
    "od -t x4": lambda data: numbers(data, 4, "08x"),
    "od -t x8": lambda data: numbers(data, 8, "016x"),
    "od -An -t x1": lambda data: numbers(data, 1, "02x", ""),
    "od -c": letters,
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
    # What ends a text of percent signs is what cannot be one of its letters.
    plain = name == "some percent signs"
    data = b"".join((b"" if plain else before, secret.encode(), b"" if plain else after))
    assert MASK in Redactor([secret]).redact(f"output:\n{encode(data)}\n")


PROGRAMS = (
    *("od", "od -c", "od -b", "od -x", "od -t x1z", "od -A x -t x1", "od -An -t x1"),
    *("base64", "base64 -w 0", "base64 -w 30"),
)
"""Those that every system has; what others print is among the encodings."""


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_value_is_found_in_what_programs_print(command: str) -> None:
    data = BEFORE + SECRET.encode() + AFTER
    ran = subprocess.run(command.split(), input=data, capture_output=True, check=True)
    clean = Redactor([SECRET]).redact(ran.stdout.decode())
    assert MASK in clean
    assert "Zq8vTr" not in clean


@pytest.mark.parametrize(
    "text",
    [
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "0000000: 0001 0203 0405 0607  ........\n0000008: 0809 0a0b 0c0d 0e0f  ........",
        "0000000   a   b   c  \\n   d\n",
        "  755 644 777 755 644 777 111 222\n",
        "100%25 of a%20b, 5% and 7 % and %zz",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ\nabcdefghijklmnopqrstuvwxyz\n0123456789",
        "\ud800 is half of a letter, %41%42%43 and 00:11:22:33:44:55:66:77:88:99",
    ],
)
def test_what_looks_like_an_encoding_stays(text: str) -> None:
    assert Redactor([SECRET]).redact(text) == text


def processor_time(redactor: Redactor, text: str) -> float:
    """Seconds that it takes, without those of a collection of other tests' garbage."""
    gc.collect()
    gc.disable()
    try:
        since = time.thread_time()
        redactor.redact(text)
        return time.thread_time() - since
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_megabyte_takes_time_by_its_length(name: str) -> None:
    redactor = Redactor([SECRET, *(f"canary.{number:08}.value" for number in range(29))])
    data = random.Random(1).randbytes(300_000)
    text = ENCODINGS[name](data)[:1_000_000]
    taken = [
        min(processor_time(redactor, text[:size]) for _ in range(3))
        for size in (len(text) // 4, len(text))
    ]
    # Four times as long a text takes four times as long; by the square it would be sixteen.
    assert taken[1] < 9 * taken[0] + 0.05


@pytest.mark.parametrize(
    "part", ["%", "%4", "a%41", "0x", "00 ", "A\n", "ABCDEFGHIJKLMNOP\n", "00000000: ", "\n00   a"]
)
def test_a_long_text_of_one_part_takes_no_longer_than_its_length(part: str) -> None:
    text = part * (500_000 // len(part))
    assert Redactor([SECRET]).redact(text) == text
