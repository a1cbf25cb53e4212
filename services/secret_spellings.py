"""How a secret value is written where it is not written as it is."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Self
from urllib.parse import quote, quote_plus

from msgspec import Struct

from services.secret_shapes import LONG


class Spellings(Struct, frozen=True):
    """The ways in which values can stand in text, by what a text needs to have any of them."""

    plain: tuple[str, ...] = ()
    """As they are, and in texts of JSON and Python."""
    quoted: tuple[str, ...] = ()
    """In URLs, where some of their letters have percent signs."""
    in_base64: tuple[bytes, ...] = ()
    data: tuple[bytes, ...] = ()
    in_hex: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, value: str) -> Self:
        """Those of one value."""
        data = value.encode("utf-8", "surrogateescape")
        quoted, in_base64 = list(_quoted(data)), list(_in_base64(data))
        # Those that nothing tells of are looked for everywhere; any may be in two lines.
        plain = [each for each in quoted if "%" not in each]
        plain += [each for each in in_base64 if len(each) < LONG]
        return cls(
            tuple(dict.fromkeys((*_plain(value), *plain))),
            tuple(each for each in quoted if "%" in each),
            tuple(each.encode() for each in in_base64),
            (data,),
            (data.hex().encode(),),
        )

    @classmethod
    def joined(cls, several: Iterable[Self]) -> Self:
        """Those of several values."""
        every = tuple(several)
        return cls(
            *(
                tuple(dict.fromkeys(chain.from_iterable(getattr(each, name) for each in every)))
                for name in cls.__struct_fields__
            )
        )


def _plain(value: str) -> Iterator[str]:
    yield value
    in_python = repr(value), repr(f'"{value}')[1:]  # which escapes ' in a text that has both
    for plain in (json.dumps(value), json.dumps(value, ensure_ascii=False), *in_python):
        yield plain[1:-1]
        # JSON in JSON.
        yield json.dumps(plain[1:-1])[1:-1]


def _quoted(data: bytes) -> Iterator[str]:
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)


def _in_base64(data: bytes) -> Iterator[str]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            yield _base64_inside(data, offset, encode)


def _base64_inside(data: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """What is always there when `data` stands `offset` bytes (modulo 3) into what is encoded."""
    encoded = encode(bytes(offset) + data).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(data)) * 8 // 6
    return encoded[first:whole]
