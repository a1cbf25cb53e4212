"""Mutual TLS from files: both sides show a certificate of the same small CA."""

import logging
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import grpc

from services.errors import FailedPrecondition

_log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int, int], ...]
"""Differs as soon as one of the files is replaced or rewritten."""


class TlsInvalid(FailedPrecondition):
    """A certificate file cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of one service: the CA's certificate, its own certificate and its key."""

    ca: Path
    certificate: Path
    key: Path


class TlsWatch:
    """Tells, cheaply enough to be asked at every call, whether the files have changed."""

    def __init__(self, files: TlsFiles, interval_s: float = 1.0) -> None:
        self.files = files
        self._interval_s = interval_s
        self._stamp: Stamp = ()
        self._looked_at = float("-inf")

    def stamp(self) -> Stamp:
        """Returns the state of the files at most `interval_s` ago; fails with TlsInvalid."""
        now = monotonic()
        if now - self._looked_at >= self._interval_s:
            self._stamp = tuple(
                _stat(path) for path in (self.files.ca, self.files.certificate, self.files.key)
            )
            self._looked_at = now
        return self._stamp


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Reads the files for a client; fails with TlsInvalid."""
    return grpc.ssl_channel_credentials(
        root_certificates=_read(files.ca),
        private_key=_read(files.key),
        certificate_chain=_read(files.certificate),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        # Missing for a moment while it is being replaced; reading it says so when it matters.
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_ino, status.st_size


def _unreadable(path: Path, error: OSError) -> TlsInvalid:
    return TlsInvalid(f"cannot read {path}: {error.strerror}")
