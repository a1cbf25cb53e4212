"""The first thing that a TLS client says, read to learn which host it is for."""

import struct

MAX_HELLO_BYTES = 64 * 1024
_RECORD_HEAD = struct.Struct("!BHH")
_MAX_RECORD_BYTES = 16 * 1024
_MAX_RECORDS = 8
_MAX_EXTENSIONS = 100
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST_NAME = 22, 1, 0, 0
UNRECOGNIZED_NAME = bytes((21, 3, 1, 0, 2, 2, 112))
"""The alert with which a TLS server turns down a host's name."""


class NotTls(ValueError):
    """The bytes are no ClientHello."""


def is_tls(data: bytes) -> bool:
    """Whether these first bytes begin a TLS handshake."""
    return data[:1] == bytes((_HANDSHAKE,))


def server_name(data: bytes) -> str | None:
    """The host that the ClientHello in data names, empty for none; None if more has to come.

    Fails with NotTls when it is something else, or too long, or names more than one.
    """
    hello = _handshake(data)
    if hello is None:
        return None
    try:
        return _name_in(_Cursor(hello))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotTls("a ClientHello is malformed") from error


def _handshake(data: bytes) -> bytes | None:
    """The ClientHello without its records; None if more has to come."""
    if not is_tls(data[:1] or bytes((_HANDSHAKE,))):
        raise NotTls("no TLS handshake")
    view, start = memoryview(data), 0
    first, pieces, got = b"", list[memoryview](), 0
    for _ in range(_MAX_RECORDS):
        if len(data) - start < _RECORD_HEAD.size:
            return None
        kind, version, size = _RECORD_HEAD.unpack_from(data, start)
        if kind != _HANDSHAKE or version >> 8 != 3 or not 0 < size <= _MAX_RECORD_BYTES:
            raise NotTls("no TLS handshake")
        start += _RECORD_HEAD.size
        piece = view[start : start + size]
        first = (first + bytes(piece[:4]))[:4]
        if first and first[0] != _CLIENT_HELLO:
            raise NotTls("no ClientHello")
        length = int.from_bytes(first[1:], "big")
        if len(first) == 4 and length > MAX_HELLO_BYTES:
            raise NotTls("a ClientHello is too long")
        if len(piece) < size:
            return None
        pieces.append(piece)
        start, got = start + size, got + size
        # It is copied when it is whole, not with each byte that comes.
        if len(first) == 4 and got >= 4 + length:
            return b"".join(pieces)[4 : 4 + length]
    raise NotTls("a ClientHello has too many records")


class _Cursor:
    """Goes through fields of bytes; IndexError at the end of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        start, end = self._at, self._at + size
        if end > len(self._data):
            raise IndexError(size)
        self._at = end
        return self._data[start:end]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Cursor":
        return _Cursor(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self._data[self._at :]

    @property
    def more(self) -> bool:
        return self._at < len(self._data)


def _name_in(hello: _Cursor) -> str:
    hello.take(2 + 32)  # version, random
    for length_size in (1, 2, 1):  # session, ciphers, compressions
        hello.vector(length_size)
    names: list[str] = []
    extensions = hello.vector(2) if hello.more else _Cursor(b"")
    for _ in range(_MAX_EXTENSIONS):
        if not extensions.more:
            break
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            entries = body.vector(2)
            while entries.more:
                name_kind, name = entries.number(1), entries.vector(2)
                if name_kind == _HOST_NAME:
                    names.append(name.rest().decode("ascii"))
    if extensions.more:
        raise NotTls("a ClientHello has too many extensions")
    if len(names) > 1:
        raise NotTls("a ClientHello names several hosts")
    return names[0] if names else ""
