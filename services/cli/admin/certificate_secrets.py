"""Certificates as Secrets of a Kubernetes cluster, written by an authorized pod."""

import base64
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from services.errors import FailedPrecondition, ServiceUnavailable
from services.rpc.auth import Identity
from services.rpc.certs import files_of, init, issue
from services.rpc.tls import TlsFiles, TlsInvalid, check_files, load_certificates

if TYPE_CHECKING:
    import httpx2

API_SERVER = "https://kubernetes.default.svc"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
RENEW_BEFORE = timedelta(days=120)
"""Certificates with less time left are replaced; they last a year."""
RENEW_CA_BEFORE = timedelta(days=365)
"""A CA with less time left can no longer sign for a whole year."""

_TIMEOUT_S = 20.0
_UNCHANGED = "is unchanged"


@contextmanager
def secrets_of(server: str, account: Path, namespace: str) -> Generator["Secrets"]:
    """The Secrets of a namespace, read and written as a pod's service account."""
    import httpx2

    try:
        token = (account / "token").read_text("ascii").strip()
        trust = ssl.create_default_context(cafile=account / "ca.crt")
    except (OSError, ssl.SSLError) as error:
        raise FailedPrecondition(
            f"{account} has no token and ca.crt of a service account ({error}); "
            "run this command in a pod of the cluster"
        ) from error
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(
        base_url=server, headers=headers, verify=trust, timeout=_TIMEOUT_S, trust_env=False
    ) as client:
        yield Secrets(client, f"/api/v1/namespaces/{namespace}/secrets")


class Secrets:
    """The Secrets of a namespace."""

    def __init__(self, client: "httpx2.Client", path: str) -> None:
        self._client = client
        self._path = path

    def get(self, name: str) -> dict[str, Any] | None:
        return self._call("GET", f"{self._path}/{name}")

    def put(self, name: str, there: Mapping[str, Any] | None, files: TlsFiles) -> None:
        paths = {"ca.crt": files.ca, "tls.crt": files.certificate, "tls.key": files.key}
        wanted = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": there["metadata"] if there else {"name": name},
            "data": {
                key: base64.b64encode(path.read_bytes()).decode() for key, path in paths.items()
            },
        }
        if there is None:
            self._call("POST", self._path, wanted)
        else:
            self._call("PUT", f"{self._path}/{name}", wanted)

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any] | None:
        import httpx2

        try:
            answer = self._client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise ServiceUnavailable(
                f"the API server at {self._client.base_url} does not answer: "
                f"{error or type(error).__name__}"
            ) from error
        if answer.status_code == HTTPStatus.NOT_FOUND and method == "GET":
            return None
        if answer.status_code == HTTPStatus.CONFLICT:
            raise FailedPrecondition(
                f"somebody else has changed {path} meanwhile; run the command again"
            )
        if answer.is_error:
            # The response body gives the reason, and never repeats what was sent.
            raise FailedPrecondition(
                f"the cluster refuses {method} {path} with {answer.status_code}; allow the service "
                "account to create, get and update these Secrets"
            )
        return answer.json()


def publish(
    secrets: Secrets, prefix: str, names: Mapping[Identity, Sequence[str]], now: datetime
) -> Generator[tuple[str, str]]:
    """Store a CA and a certificate of each identity in Secrets; yield names and what was done."""
    with TemporaryDirectory() as folder:
        authority, name = Path(folder), f"{prefix}-ca-tls"
        yield name, _authority(secrets, name, authority, now)
        for identity, wanted in names.items():
            name = f"{prefix}-{identity}-tls"
            there, files = secrets.get(name), files_of(authority, identity)
            why = "" if there is None else _why_replaced(there, files, wanted, now)
            if there is not None and not why:
                yield name, _UNCHANGED
                continue
            issue(authority, identity, wanted, now, force=True)
            secrets.put(name, there, files)
            yield name, f"was replaced: it {why}" if why else "was created"


def _authority(secrets: Secrets, name: str, folder: Path, now: datetime) -> str:
    files = TlsFiles(folder / "ca.crt", folder / "ca.crt", folder / "ca.key")
    if (there := secrets.get(name)) is None:
        init(folder, now)
        secrets.put(name, None, files)
        return "was created"
    _unpack(there, files)
    left = load_certificates(files.ca)[0].not_valid_after_utc - now
    if left >= RENEW_CA_BEFORE:
        return _UNCHANGED
    return (
        f"has an authority that expires in {left.days} days: delete the Secret {name} and the "
        "Secrets of all services, run the command again, and restart the services"
    )


def _why_replaced(
    there: Mapping[str, Any], files: TlsFiles, names: Sequence[str], now: datetime
) -> str:
    from cryptography import x509

    try:
        _unpack(there, files)
        check_files(files, now + RENEW_BEFORE)
        found = load_certificates(files.certificate)[0].extensions
    except TlsInvalid:
        return "expires soon, or another authority has signed it"
    alternatives = found.get_extension_for_class(x509.SubjectAlternativeName).value
    is_for_them = set(alternatives.get_values_for_type(x509.DNSName)) == set(names)
    return "" if is_for_them else "was for other names"


def _unpack(secret: Mapping[str, Any], files: TlsFiles) -> None:
    data: Mapping[str, str] = secret.get("data") or {}
    for key, path in (("tls.crt", files.certificate), ("tls.key", files.key)):
        if key not in data:
            name = secret["metadata"]["name"]
            raise TlsInvalid(f"the Secret {name} has no {key}; delete it and run the command again")
        path.write_bytes(base64.b64decode(data[key]))
