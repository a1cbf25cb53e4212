"""A certificate authority of one sandbox, which vouches for hosts to that sandbox's commands only.

Its key is derived from what the executor shares with the box, so that it is the same one after a
restart and lies nowhere.
"""

import hmac
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME = timedelta(days=60)
"""Longer than any sandbox lives."""
_CLOCK_SKEW = timedelta(days=1)
_NAME = "Hermes sandbox"


class Authority:
    """Signs for some hosts and those below them."""

    def __init__(self, seed: bytes, names: Sequence[str]) -> None:
        """`seed` is secret, and the key's; `names` are the hosts."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding

        curve = ec.SECP256R1()
        number = int.from_bytes(hmac.digest(seed, b"authority", "sha512"), "big")
        self._key = ec.derive_private_key(number % (curve.group_order - 1) + 1, curve)
        self._subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
        below = [x509.DNSName(name) for name in sorted(set(names))]
        certificate = (
            _builder(self._subject, self._subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.NameConstraints(below, None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
        )
        self.certificate = _signed(certificate, self._key).public_bytes(Encoding.PEM).decode()
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
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        certificate = (
            _builder(x509.Name([]), self._subject, key)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(serves, critical=False)
            .add_extension(authority, critical=False)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        with tempfile.NamedTemporaryFile() as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.write(_signed(certificate, self._key).public_bytes(Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePrivateKey"
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now, public = datetime.now(UTC), key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey"
) -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())
