"""TLS of commands: reading the client's hello, serving it, and signing for hosts.

Each sandbox has a certificate authority that only its commands trust. Its key is derived from the
secret that the executor shares with the box, so it survives a restart without being stored.
"""

import asyncio
import contextlib
import hmac
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from executor_service.network.requests import Sink, Source
from services.rpc.certs import Issuer, common_name, make_certificate

MAX_HELLO_BYTES = 64 * 1024
_HANDSHAKE = 22
UNRECOGNIZED_NAME = bytes((21, 3, 1, 0, 2, 2, 112))
"""The TLS alert for an unknown host name."""


class NotTls(ValueError):
    """The bytes are no ClientHello."""


def is_tls(data: bytes) -> bool:
    """Whether these first bytes begin a TLS handshake."""
    return data[:1] == bytes((_HANDSHAKE,))


class ClientHello:
    """Reads a ClientHello with a TLS server that never answers."""

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
        """Return the host that the hello names, empty for none; None if more bytes are needed.

        Fails with NotTls if it is not a hello, is too long, or names several hosts.
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


_READ_BYTES = 64 * 1024
_T = TypeVar("_T")


class TlsServer:
    """A source and sink of plain bytes, over a source and sink of TLS records."""

    def __init__(self, source: Source, sink: Sink, context: ssl.SSLContext) -> None:
        self._source = source
        self._sink = sink
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._flushing = asyncio.Lock()

    async def handshake(self) -> None:
        """Shake hands with the client; fails with OSError, as all methods here."""
        await self._do(self._tls.do_handshake)

    async def read(self, n: int) -> bytes:
        try:
            return await self._do(lambda: self._tls.read(n))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        await self._do(lambda: self._tls.write(data))

    async def end(self) -> None:
        """Announce the end, without waiting for the client's."""
        with contextlib.suppress(ssl.SSLError):  # the client has not announced its own
            self._tls.unwrap()
        await self._flush()

    async def _do(self, operation: Callable[[], _T]) -> _T:
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._source.read(_READ_BYTES)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        async with self._flushing:
            while data := self._outgoing.read():
                await self._sink.write(data)


_LIFETIME = timedelta(days=60)
"""Longer than any sandbox lives."""
_CLOCK_SKEW = timedelta(days=1)


class Authority:
    """Signs for some hosts and those below them."""

    def __init__(self, seed: bytes, names: Sequence[str]) -> None:
        """`seed` is secret, and the key's; `names` are the hosts."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding

        curve = ec.SECP256R1()
        number = int.from_bytes(hmac.digest(seed, b"authority", "sha512"), "big")
        key = ec.derive_private_key(number % (curve.group_order - 1) + 1, curve)
        self._issuer = Issuer(common_name("Hermes sandbox"), key)
        below = [x509.DNSName(name) for name in sorted(set(names))]
        certificate = make_certificate(
            self._issuer.name, key, _lifetime(), [(x509.NameConstraints(below, None), True)]
        )
        self.certificate = certificate.public_bytes(Encoding.PEM).decode()
        """In PEM form."""

    def context(self, host: str) -> ssl.SSLContext:
        """A server context for a host; writes a file for a moment, so call it in a thread."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.SubjectAlternativeName([x509.DNSName(host)])
        serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        certificate = make_certificate(
            x509.Name([]), key, _lifetime(), [(name, True), (serves, False)], self._issuer
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.NamedTemporaryFile() as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.write(certificate.public_bytes(Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context


def _lifetime() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - _CLOCK_SKEW, now + _LIFETIME
