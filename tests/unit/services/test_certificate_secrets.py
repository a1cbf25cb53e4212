"""Certificates of a release as Secrets, over HTTPS as a cluster's API server has them."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509

from services import certs
from services.auth import Identity
from services.cli.certificate_secrets import Secrets, publish, secrets_of
from services.errors import FailedPrecondition
from services.tls import TlsFiles, check_files

NOW = datetime.now(UTC)
NAMES = {
    Identity.AGENT: ["hermes-agent.hermes.svc"],
    Identity.EXECUTOR: ["hermes-executor.hermes.svc", "*.hermes-executor.hermes.svc"],
    Identity.OPERATOR: [],
}
PATH = "/api/v1/namespaces/hermes/secrets"


class Kept(ThreadingHTTPServer):
    """An API server that knows Secrets of one namespace, and one token."""

    secrets: dict[str, dict[str, Any]]
    writes: list[str]


class Answers(BaseHTTPRequestHandler):
    """Gets, creates and updates, with the resource version that an update must show."""

    def do_GET(self) -> None:
        self._answer(200, self._kept.secrets.get(self.path.removeprefix(f"{PATH}/")))

    def do_POST(self) -> None:
        self._write(self._read()["metadata"]["name"], is_new=True)

    def do_PUT(self) -> None:
        self._write(self.path.removeprefix(f"{PATH}/"), is_new=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        pass

    @property
    def _kept(self) -> Kept:
        return cast("Kept", self.server)

    def _read(self) -> dict[str, Any]:
        if not hasattr(self, "_body"):
            self._body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return self._body

    def _write(self, name: str, *, is_new: bool) -> None:
        wanted, there = self._read(), self._kept.secrets.get(name)
        version = wanted["metadata"].get("resourceVersion")
        stale = there is not None and version != there["metadata"]["resourceVersion"]
        if (is_new and there is not None) or (not is_new and (there is None or stale)):
            self._answer(409, {})
            return
        self._kept.writes.append(name)
        wanted["metadata"]["resourceVersion"] = str(len(self._kept.writes))
        self._kept.secrets[name] = wanted
        self._answer(200, wanted)

    def _answer(self, status: int, body: dict[str, Any] | None) -> None:
        if self.headers["Authorization"] != "Bearer the-token":
            status, body = 403, {}
        data = json.dumps(body or {}).encode()
        self.send_response(404 if body is None else status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    certs.init(tmp_path, NOW)
    (tmp_path / "token").write_text("the-token\n")
    return tmp_path


@pytest.fixture
def cluster(account: Path) -> Iterator[Kept]:
    files = certs.issue(account, Identity.OPERATOR, ["localhost"], NOW)
    server = Kept(("localhost", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.secrets, server.writes = {}, []
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def reached(cluster: Kept, account: Path) -> AbstractContextManager[Secrets]:
    return secrets_of(f"https://localhost:{cluster.server_port}", account, "hermes")


def published(
    cluster: Kept, account: Path, names: Any = NAMES, now: datetime = NOW
) -> dict[str, str]:
    with reached(cluster, account) as secrets:
        return dict(publish(secrets, "hermes", names, now))


def files_of(cluster: Kept, name: str, folder: Path) -> TlsFiles:
    found = [folder / key for key in ("ca.crt", "tls.crt", "tls.key")]
    folder.mkdir(exist_ok=True)
    for path in found:
        path.write_bytes(base64.b64decode(cluster.secrets[name]["data"][path.name]))
    return TlsFiles(*found)


def test_all_are_made_once(cluster: Kept, account: Path, tmp_path: Path) -> None:
    assert set(published(cluster, account).values()) == {"was made"}
    assert set(cluster.secrets) == {
        *("hermes-ca-tls", "hermes-agent-tls", "hermes-executor-tls", "hermes-operator-tls")
    }
    files = files_of(cluster, "hermes-executor-tls", tmp_path / "executor")
    check_files(files, datetime.now(UTC))
    names = (
        x509.load_pem_x509_certificate(files.certificate.read_bytes())
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://hermes/executor"]
    assert names.get_values_for_type(x509.DNSName) == NAMES[Identity.EXECUTOR]
    writes = len(cluster.writes)
    assert set(published(cluster, account).values()) == {"is as it was"}
    assert len(cluster.writes) == writes


def test_what_ends_soon_or_has_other_names_is_replaced_under_the_same_authority(
    cluster: Kept, account: Path, tmp_path: Path
) -> None:
    published(cluster, account)
    authority = cluster.secrets["hermes-ca-tls"]["data"]["tls.crt"]
    names = {**NAMES, Identity.AGENT: ["elsewhere.hermes.svc"]}
    done = published(cluster, account, names)
    assert done["hermes-agent-tls"] == "was replaced: it was for other names"
    assert done["hermes-executor-tls"] == "is as it was"
    done = published(cluster, account, names, NOW + timedelta(days=300))
    assert all("would end on" in done[f"hermes-{name}-tls"] for name in names)
    assert cluster.secrets["hermes-agent-tls"]["data"]["ca.crt"] == authority
    check_files(
        files_of(cluster, "hermes-agent-tls", tmp_path / "agent"), NOW + timedelta(days=600)
    )


def test_an_authority_that_ends_soon_is_told_of(cluster: Kept, account: Path) -> None:
    published(cluster, account)
    done = published(cluster, account, now=NOW + timedelta(days=3400))
    assert "delete the Secrets" in done["hermes-ca-tls"]


def test_a_refusal_says_what_is_wanting_and_no_secret(cluster: Kept, account: Path) -> None:
    (account / "token").write_text("another")
    with pytest.raises(FailedPrecondition, match="may create, get and update") as refused:
        published(cluster, account)
    assert "another" not in str(refused.value)
    (account / "token").unlink()
    with pytest.raises(FailedPrecondition, match="for a pod of the cluster"):
        published(cluster, account)
