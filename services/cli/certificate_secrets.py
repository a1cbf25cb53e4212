"""Certificates as Secrets of a Kubernetes cluster, made by a pod of it that may write them."""

import base64
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from services.auth import Identity
from services.certs import init, issue
from services.errors import FailedPrecondition, ServiceUnavailable
from services.tls import TlsInvalid, is_issued_by, load_certificates

if TYPE_CHECKING:
    import httpx
    from cryptography import x509

API_SERVER = "https://kubernetes.default.svc"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
RENEW_BEFORE = timedelta(days=120)
"""Certificates with less time left are replaced; they last a year."""
RENEW_CA_BEFORE = timedelta(days=365)
"""An authority with less time left cannot sign for a whole year any more."""

_TIMEOUT_S = 20.0
_UNCHANGED = "is as it was"


@contextmanager
def secrets_of(server: str, account: Path, namespace: str) -> Generator["Secrets"]:
    """The Secrets of a namespace, read and written as a pod's service account."""
    import httpx

    try:
        token = (account / "token").read_text("ascii").strip()
        trust = ssl.create_default_context(cafile=account / "ca.crt")
    except (OSError, ssl.SSLError) as error:
        raise FailedPrecondition(
            f"{account} has no token and ca.crt of a service account ({error}); "
            "this command is for a pod of the cluster"
        ) from error
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=server, headers=headers, verify=trust, timeout=_TIMEOUT_S, trust_env=False
    ) as client:
        yield Secrets(client, f"/api/v1/namespaces/{namespace}/secrets")


class Secrets:
    """The Secrets of a namespace."""

    def __init__(self, client: "httpx.Client", path: str) -> None:
        self._client = client
        self._path = path

    def get(self, name: str) -> dict[str, Any] | None:
        """A Secret as it is there."""
        return self._call("GET", f"{self._path}/{name}", absent=HTTPStatus.NOT_FOUND)

    def put(self, name: str, there: Mapping[str, Any] | None, files: Mapping[str, Path]) -> bool:
        """Make a Secret of these files, or replace the one that is there; False when somebody else
        has done either since.
        """
        data = {key: base64.b64encode(path.read_bytes()).decode() for key, path in files.items()}
        metadata = there["metadata"] if there else {"name": name}
        wanted = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": metadata,
            "data": data,
        }
        method, path = ("PUT", f"{self._path}/{name}") if there else ("POST", self._path)
        return self._call(method, path, wanted, absent=HTTPStatus.CONFLICT) is not None

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, absent: HTTPStatus
    ) -> dict[str, Any] | None:
        import httpx

        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"the API server at {self._client.base_url} does not answer: "
                f"{error or type(error).__name__}"
            ) from error
        if answer.status_code == absent:
            return None
        if answer.is_error:
            # The body of a refusal says why, and never repeats what was sent.
            raise FailedPrecondition(
                f"the cluster refuses to {method} {path} with {answer.status_code}; see that "
                "the service account may create, get and update these Secrets"
            )
        return answer.json()


def publish(
    secrets: Secrets, prefix: str, names: Mapping[Identity, Sequence[str]], now: datetime
) -> Generator[tuple[str, str]]:
    """Have an authority, and a certificate of each identity, in Secrets.

    Yields the name of each Secret and what was done about it.
    """
    with TemporaryDirectory() as folder:
        authority, name = Path(folder), f"{prefix}-ca-tls"
        yield name, _authority(secrets, name, authority, now)
        for identity, wanted in names.items():
            name = f"{prefix}-{identity}-tls"
            there = secrets.get(name)
            why = "is missing" if there is None else _why_replaced(there, authority, wanted, now)
            if not why:
                yield name, _UNCHANGED
                continue
            files = issue(authority, identity, wanted, now)
            paths = {"ca.crt": files.ca, "tls.crt": files.certificate, "tls.key": files.key}
            if not secrets.put(name, there, paths):
                yield name, "was written by somebody else meanwhile"
            else:
                yield name, "was made" if there is None else f"was replaced: it {why}"


def _authority(secrets: Secrets, name: str, folder: Path, now: datetime) -> str:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if (there := secrets.get(name)) is None:
        init(folder, now)
        paths = {"ca.crt": certificate, "tls.crt": certificate, "tls.key": key}
        if secrets.put(name, None, paths):
            return "was made"
        there = secrets.get(name)  # another Job was faster
    certificate.write_bytes(_file(name, there, "tls.crt"))
    key.touch(0o600)
    key.write_bytes(_file(name, there, "tls.key"))
    left = load_certificates(certificate)[0].not_valid_after_utc - now
    if left >= RENEW_CA_BEFORE:
        return _UNCHANGED
    return (
        f"has an authority that ends in {left.days} days: delete the Secrets {name} and those of "
        "all services, run this again, and restart the services"
    )


def _why_replaced(
    there: Mapping[str, Any], folder: Path, names: Sequence[str], now: datetime
) -> str:
    """What is wrong with a certificate that is there; empty when nothing is."""
    found = folder / "found.crt"
    try:
        found.write_bytes(_file("", there, "tls.crt"))
        certificate = load_certificates(found)[0]
    except TlsInvalid:
        return "could not be read"
    if not is_issued_by(certificate, load_certificates(folder / "ca.crt")[0]):
        return "was signed by another authority"
    if certificate.not_valid_after_utc - now < RENEW_BEFORE:
        return f"would end on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return "" if _dns_names(certificate) == set(names) else "was for other names"


def _dns_names(certificate: "x509.Certificate") -> set[str]:
    from cryptography import x509

    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return set(found.value.get_values_for_type(x509.DNSName))


def _file(name: str, secret: Mapping[str, Any] | None, key: str) -> bytes:
    data: Mapping[str, str] = (secret or {}).get("data") or {}
    encoded = data.get(key)
    if encoded is None:
        raise TlsInvalid(f"the Secret {name} has no {key}; delete it and run this again")
    return base64.b64decode(encoded)
