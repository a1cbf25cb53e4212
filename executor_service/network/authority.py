"""A certificate authority of one sandbox, which vouches for hosts to that sandbox's commands only.

Its key is derived from what the executor shares with the box, so that it is the same one after a
restart and lies nowhere.
"""

import hmac
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from services.rpc.certs import Issuer, common_name, make_certificate

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
        """What serves as a host; writes and reads a file for a moment, so call it in a thread."""
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
