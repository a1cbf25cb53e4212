"""The C halves of `collections`, `contextlib`, `hashlib`, `json`, `signal` and `socket`.

Their Python halves import enum and re, and hashlib loads OpenSSL: that takes longer than all the
rest of a box's start. Code that runs seldom, or outside of boxes, imports the usual modules.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections import deque
    from contextlib import suppress
    from hashlib import sha256
    from typing import Any

    _scan: Any
    _encode: Any
else:
    import _signal as signal
    import _socket as socket
    from _collections import deque

    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

    class suppress:  # noqa: N801 - like contextlib's
        def __init__(self, *kinds):
            self._kinds = kinds

        def __enter__(self):
            pass

        def __exit__(self, kind, _error, _trace):
            return kind is not None and issubclass(kind, self._kinds)

    class _Decoding:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int, parse_constant = float, int, float

    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        _scan = make_scanner(_Decoding)
        _encode = make_encoder(None, None, encode_basestring_ascii, None, ":", ",", 0, 0, 1)
    except (ImportError, AttributeError, TypeError):  # a Python with other C halves
        import json

        _scan = json.JSONDecoder().raw_decode
        _encode = json.JSONEncoder(separators=(",", ":")).iterencode

__all__ = ["accept", "deque", "from_json", "sha256", "signal", "socket", "suppress", "to_json"]


def to_json(value: dict[str, Any]) -> bytes:
    """Return JSON in ASCII."""
    return "".join(_encode(value, 0)).encode()


def from_json(text: bytes) -> Any:
    """Return a value; ValueError if the text is not JSON, or has spaces around it."""
    decoded = text.decode()
    try:
        value, end = _scan(decoded, 0)
    except (StopIteration, SystemError):  # before Python 3.13, if nobody has imported json
        raise ValueError("it is not JSON") from None
    if end != len(decoded):
        raise ValueError("it is JSON and more")
    return value


def accept(listener: socket.socket) -> socket.socket:
    """Return the next connection of a listener."""
    raw: Any = listener
    return socket.socket(fileno=raw._accept()[0])  # noqa: SLF001 - what accept() calls too
