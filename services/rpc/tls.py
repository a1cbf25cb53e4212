"""Mutual TLS from files, with certificates of the same small CA."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import grpc
from msgspec import Struct
from msgspec.structs import astuple

from services.errors import FailedPrecondition

if TYPE_CHECKING:
    from cryptography import x509

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

CHECK_INTERVAL_S = 1.0
"""How often the files are checked for changes."""


class TlsInvalid(FailedPrecondition):
    """A certificate file cannot be used; the message says which and why."""


class TlsFiles(Struct, frozen=True):
    """The PEM files of one service: the CA's certificate, its own certificate and its key."""

    ca: Path
    certificate: Path
    key: Path


class ClientTls:
    """A client's credentials; `generation` counts the changes of the files."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files, so call it in a thread; raises TlsInvalid."""
        # Stat first: changes during the read are read again.
        self._changes = _Changes(files)
        self.credentials = _channel_credentials(files)
        self.generation = 0

    async def watch(self, interval_s: float = CHECK_INTERVAL_S) -> None:
        """Reload the files whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            changed = await asyncio.to_thread(self._changes.read, _channel_credentials)
            if changed is not None:
                self.credentials = changed
                self.generation += 1


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials that require client certificates and follow file changes."""
    changes = _Changes(files)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        # Called by gRPC's threads at each new connection.
        return changes.read(_server_configuration)

    # The stubs do not know that None means no change.
    reload = cast("Callable[[], grpc.ServerCertificateConfiguration]", changed)
    return grpc.dynamic_ssl_server_credentials(
        _server_configuration(files), reload, require_client_authentication=True
    )


def check_files(files: TlsFiles, now: datetime) -> None:
    """Raise TlsInvalid, with what to do, if the files are expired or do not belong together."""
    _read_all(files)
    chain, authorities = load_certificates(files.certificate), load_certificates(files.ca)
    own = chain[0]
    if now >= own.not_valid_after_utc:
        raise TlsInvalid(
            f"{files.certificate} expired on {own.not_valid_after_utc:%Y-%m-%d}; "
            "issue a new one with `hermes certs issue`"
        )
    if now < own.not_valid_before_utc:
        raise TlsInvalid(
            f"{files.certificate} is not valid before {own.not_valid_before_utc:%Y-%m-%d %H:%M}"
            " UTC; is the clock right?"
        )
    if not any(is_issued_by(own, issuer) for issuer in (*chain[1:], *authorities)):
        raise TlsInvalid(f"{files.certificate} was not issued by the CA in {files.ca}")


def load_certificates(path: Path) -> "list[x509.Certificate]":
    """Read a PEM file of one or more certificates; raises TlsInvalid."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        raise TlsInvalid(f"{path} is not a certificate in PEM form") from error


def is_issued_by(certificate: "x509.Certificate", issuer: "x509.Certificate") -> bool:
    """Return whether the issuer's key signed the certificate."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


class _Changes:
    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._stamp()

    def read(self, read: Callable[[TlsFiles], _T]) -> _T | None:
        """Return the files' content if they changed and are valid, else None."""
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
        try:
            return read(self._files)
        except TlsInvalid as error:
            # Half a rotation: the other files follow, which is another change.
            _log.warning("the changed certificate is not used: %s", error)
            return None

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_state(path) for path in astuple(self._files))


def _channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    ca, certificate, key = _read_all(files)
    return grpc.ssl_channel_credentials(ca, private_key=key, certificate_chain=certificate)


def _server_configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    ca, certificate, key = _read_all(files)
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=ca)


def _read_all(files: TlsFiles) -> tuple[bytes, bytes, bytes]:
    """Read the CA's certificate, and our matching certificate and key."""
    pems = _read(files.ca), _read(files.certificate), _read(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError as error:
        raise TlsInvalid(f"{files.ca} is not a CA certificate in PEM form") from error
    try:
        # A password keeps OpenSSL from prompting for one.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        pair = f"{files.certificate} and {files.key}"
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsInvalid(
                f"{pair} do not belong together; make them with `hermes certs issue`"
            ) from error
        raise TlsInvalid(f"{pair} are not a certificate and its key in PEM form") from error
    return pems


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsInvalid(f"cannot read {path}: {error.strerror}") from error


def _state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        # Missing during a replacement; readers report it if it stays away.
        return 0, 0, 0
    return status.st_mtime_ns, status.st_ino, status.st_size
