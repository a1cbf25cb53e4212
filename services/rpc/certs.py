"""A small certificate authority for `hermes certs init` and `hermes certs issue`.

A folder holds `ca.crt`, `ca.key`, and `<identity>.crt` and `<identity>.key` for each service. Only
issuing needs the CA's key, so serving machines need not have it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from services.errors import FailedPrecondition, InvalidArgument
from services.home.paths import replace_file
from services.rpc.auth import SPIFFE_PREFIX, Identity
from services.rpc.tls import TlsFiles, TlsInvalid, load_certificates

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

CA_LIFETIME = timedelta(days=3650)
CERTIFICATE_LIFETIME = timedelta(days=365)
CLOCK_SKEW = timedelta(minutes=5)


def files_of(folder: Path, identity: Identity) -> TlsFiles:
    """Return the paths of a service's files in a folder."""
    return TlsFiles(folder / "ca.crt", folder / f"{identity}.crt", folder / f"{identity}.key")


def init(folder: Path, now: datetime, *, force: bool = False) -> Path:
    """Create a CA; return its certificate's path. `force` voids an earlier one."""
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate_path, key_path = folder / "ca.crt", folder / "ca.key"
    _refuse_overwriting(force, certificate_path, key_path)
    key = ec.generate_private_key(ec.SECP256R1())
    lifetime = (now - CLOCK_SKEW, now + CA_LIFETIME)
    certificate = make_certificate(common_name("Hermes CA"), key, lifetime)
    _write_pair(certificate, certificate_path, key, key_path)
    return certificate_path


def issue(
    folder: Path, identity: Identity, names: Sequence[str], now: datetime, *, force: bool = False
) -> TlsFiles:
    """Create a service's certificate for its DNS names and IP addresses; a client needs none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    files = files_of(folder, identity)
    _refuse_overwriting(force, files.certificate, files.key)
    ca, ca_key = _load_ca(folder, now)
    key = ec.generate_private_key(ec.SECP256R1())
    spiffe = x509.UniformResourceIdentifier(f"{SPIFFE_PREFIX}{identity}")
    alternatives = x509.SubjectAlternativeName([spiffe, *(_general_name(name) for name in names)])
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = make_certificate(
        common_name(f"hermes {identity}"),
        key,
        (now - CLOCK_SKEW, min(now + CERTIFICATE_LIFETIME, ca.not_valid_after_utc)),
        [(x509.ExtendedKeyUsage(both), False), (alternatives, False)],
        Issuer(ca.subject, ca_key),
    )
    _write_pair(certificate, files.certificate, key, files.key)
    return files


class Issuer(Struct, frozen=True):
    """An authority that signs certificates."""

    name: "x509.Name"
    key: "ec.EllipticCurvePrivateKey"


def make_certificate(
    subject: "x509.Name",
    key: "ec.EllipticCurvePrivateKey",
    lifetime: tuple[datetime, datetime],
    extensions: "Sequence[tuple[x509.ExtensionType, bool]]" = (),
    issuer: Issuer | None = None,
) -> "x509.Certificate":
    """Make a certificate, self-signed without an issuer; extensions come with their criticality."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    by, public, is_authority = issuer or Issuer(subject, key), key.public_key(), issuer is None
    every: list[tuple[x509.ExtensionType, bool]] = [
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (x509.BasicConstraints(is_authority, 0 if is_authority else None), True),
        (_key_usage(signs_certificates=is_authority), True),
        *extensions,
    ]
    if not is_authority:
        of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
        every.append((of_issuer, False))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(lifetime[0])
        .not_valid_after(lifetime[1])
    )
    for extension, is_critical in every:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(by.key, hashes.SHA256())


def common_name(text: str) -> "x509.Name":
    """Return a certificate subject."""
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _key_usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise InvalidArgument(f"{name!r} is neither a DNS name nor an IP address") from error


def _load_ca(folder: Path, now: datetime) -> "tuple[x509.Certificate, ec.EllipticCurvePrivateKey]":
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate_path, key_path = folder / "ca.crt", folder / "ca.key"
    if not certificate_path.exists() or not key_path.exists():
        raise FailedPrecondition(f"there is no CA in {folder}; make one with `hermes certs init`")
    certificate = load_certificates(certificate_path)[0]
    try:
        key = load_pem_private_key(key_path.read_bytes(), None)
    except OSError as error:
        raise TlsInvalid(f"cannot read {key_path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise TlsInvalid(f"{key_path} is not a plain key in PEM form") from error
    matches = key.public_key() == certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not matches:
        raise TlsInvalid(f"the key {key_path} does not belong to {certificate_path}")
    if now >= certificate.not_valid_after_utc:
        raise TlsInvalid(f"{certificate_path} has expired; make a new CA with `hermes certs init`")
    return certificate, key


def _refuse_overwriting(force: bool, *paths: Path) -> None:
    for path in paths:
        if path.exists() and not force:
            raise FailedPrecondition(f"{path} is there already; --force replaces it")


def _write_pair(
    certificate: "x509.Certificate",
    certificate_path: Path,
    key: "ec.EllipticCurvePrivateKey",
    key_path: Path,
) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    replace_file(key_path, private.decode(), 0o600)
    replace_file(certificate_path, certificate.public_bytes(Encoding.PEM).decode(), 0o644)
