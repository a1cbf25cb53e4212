"""The first thing that a TLS client says, read to learn which host it is for."""

import struct

MAX_HELLO_BYTES = 64 * 1024
_RECORD_HEAD = struct.Struct("!BHH")
_MAX_RECORD_BYTES = 16 * 1024
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
    message, start = b"", 0
    while len(data) - start >= _RECORD_HEAD.size:
        kind, version, size = _RECORD_HEAD.unpack_from(data, start)
        if kind != _HANDSHAKE or version >> 8 != 3 or not 0 < size <= _MAX_RECORD_BYTES:
            raise NotTls("no TLS handshake")
        start += _RECORD_HEAD.size
        message += data[start : start + size]
        start += size
        if message and message[0] != _CLIENT_HELLO:
            raise NotTls("no ClientHello")
        if len(message) < 4:
            continue
        length = int.from_bytes(message[1:4], "big")
        if length > MAX_HELLO_BYTES:
            raise NotTls("a ClientHello is too long")
        if len(message) >= 4 + length:
            return message[4 : 4 + length]
    if not is_tls(data[:1] or bytes((_HANDSHAKE,))) or len(data) > 2 * MAX_HELLO_BYTES:
        raise NotTls("no TLS handshake")
    return None


class _Cursor:
    """Goes through fields of bytes; IndexError at the end of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, size: int) -> bytes:
        if len(self._data) < size:
            raise IndexError(size)
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Cursor":
        return _Cursor(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self._data

    @property
    def more(self) -> bool:
        return bool(self._data)


def _name_in(hello: _Cursor) -> str:
    hello.take(2 + 32)  # version, random
    for length_size in (1, 2, 1):  # session, ciphers, compressions
        hello.vector(length_size)
    names: list[str] = []
    extensions = hello.vector(2) if hello.more else _Cursor(b"")
    while extensions.more:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            entries = body.vector(2)
            while entries.more:
                name_kind, name = entries.number(1), entries.vector(2)
                if name_kind == _HOST_NAME:
                    names.append(name.rest().decode("ascii"))
    if len(names) > 1:
        raise NotTls("a ClientHello names several hosts")
    return names[0] if names else ""
