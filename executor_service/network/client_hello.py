"""The first thing that a TLS client says, read to learn which host it is for."""

import ssl

MAX_HELLO_BYTES = 64 * 1024
_HANDSHAKE = 22
UNRECOGNIZED_NAME = bytes((21, 3, 1, 0, 2, 2, 112))
"""The alert with which a TLS server turns down a host's name."""


class NotTls(ValueError):
    """The bytes are no ClientHello."""


def is_tls(data: bytes) -> bool:
    """Whether these first bytes begin a TLS handshake."""
    return data[:1] == bytes((_HANDSHAKE,))


class ClientHello:
    """A ClientHello as it comes, read by a TLS server that never answers."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._size = 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = self._note
        self._incoming = ssl.MemoryBIO()
        self._server = context.wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)

    def _note(self, _server: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int:
        self._names.append(name or "")
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    def feed(self, data: bytes) -> str | None:
        """The host that it names, empty for none; None if more has to come.

        Fails with NotTls when it is something else, or too long, or names more than one.
        """
        self._size += len(data)
        self._incoming.write(data)
        try:
            self._server.do_handshake()
        except ssl.SSLWantReadError:
            if self._size > MAX_HELLO_BYTES:
                raise NotTls("a ClientHello is too long") from None
            return None
        except ssl.SSLError as error:
            if not self._names:
                raise NotTls("no ClientHello of TLS 1.2 or newer") from error
        return self._names[0]
