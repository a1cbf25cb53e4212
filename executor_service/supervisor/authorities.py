"""Whom the TLS clients in a box believe: those whom its image believes, and one more."""

from __future__ import annotations

import os
from contextlib import suppress

_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO")
_USUAL_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def believe(certificate: str, env: dict[str, str]) -> dict[str, str]:
    """Variables that make TLS clients believe one more authority, where commands have `env`; none
    for no certificate."""
    if not certificate:
        return {}
    folder = env.get("TMPDIR") or "/tmp"  # noqa: S108 - commands have it, and nobody else
    path = os.path.join(folder, ".hermes-authorities.pem")
    new = f"{path}.{os.urandom(8).hex()}"
    with open(os.open(new, _NEW_FILE, 0o644), "wb") as file:
        file.write(_usual(env) + certificate.encode("ascii"))
    # Commands that run have the name, and the key that it vouches with stays the same.
    os.rename(new, path)
    return dict.fromkeys(_VARIABLES, path)


def _usual(env: dict[str, str]) -> bytes:
    """The certificates that the image believes."""
    for path in (env.get("SSL_CERT_FILE", ""), *_USUAL_FILES):
        with suppress(OSError), open(path, "rb") as file:
            return file.read().rstrip(b"\n") + b"\n"
    return b""
