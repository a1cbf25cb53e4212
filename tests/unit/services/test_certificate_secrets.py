"""Certificates of a release as Secrets, over HTTPS as a cluster's API server has them."""

import base64
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from anyio.from_thread import start_blocking_portal
from cryptography import x509

from services.cli.admin.certificate_secrets import publish, secrets_of
from services.errors import FailedPrecondition
from services.rpc import certs
from services.rpc.auth import Identity
from services.rpc.tls import TlsFiles, check_files
from tests.fakes.web import site

NOW = datetime.now(UTC)
NAMES = {
    Identity.AGENT: ["hermes-agent.hermes.svc"],
    Identity.EXECUTOR: ["hermes-executor.hermes.svc", "*.hermes-executor.hermes.svc"],
    Identity.OPERATOR: [],
}
PATH = "/api/v1/namespaces/hermes/secrets"


Kept = dict[str, dict[str, Any]]
"""The Secrets of a namespace by their names."""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    certs.init(tmp_path, NOW)
    (tmp_path / "token").write_text("the-token\n")
    return tmp_path


@pytest.fixture
def kept() -> Kept:
    return {}


@pytest.fixture
def url(account: Path, kept: Kept) -> Iterator[str]:
    """The URL of an API server that knows one token."""
    files = certs.issue(account, Identity.OPERATOR, ["localhost"], NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer the-token":
            return web.json_response({}, status=403)
        if request.method == "GET":
            found = kept.get(request.path.removeprefix(f"{PATH}/"))
            return web.json_response(found or {}, status=200 if found else 404)
        wanted = await request.json()
        version = int(wanted["metadata"].get("resourceVersion", "0")) + 1
        wanted["metadata"]["resourceVersion"] = str(version)
        kept[wanted["metadata"]["name"]] = wanted
        return web.json_response(wanted)

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(site(answer, tls=context)) as served,
    ):
        yield served.url("localhost", "", "https")


def published(url: str, account: Path, names: Any = NAMES, now: datetime = NOW) -> dict[str, str]:
    with secrets_of(url, account, "hermes") as secrets:
        return dict(publish(secrets, "hermes", names, now))


def files_of(kept: Kept, name: str, folder: Path) -> TlsFiles:
    found = [folder / key for key in ("ca.crt", "tls.crt", "tls.key")]
    folder.mkdir(exist_ok=True)
    for path in found:
        path.write_bytes(base64.b64decode(kept[name]["data"][path.name]))
    return TlsFiles(*found)


def test_all_are_made_once(url: str, kept: Kept, account: Path, tmp_path: Path) -> None:
    assert set(published(url, account).values()) == {"was created"}
    assert set(kept) == {
        *("hermes-ca-tls", "hermes-agent-tls", "hermes-executor-tls", "hermes-operator-tls")
    }
    files = files_of(kept, "hermes-executor-tls", tmp_path / "executor")
    check_files(files, datetime.now(UTC))
    names = (
        x509.load_pem_x509_certificate(files.certificate.read_bytes())
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://hermes/executor"]
    assert names.get_values_for_type(x509.DNSName) == NAMES[Identity.EXECUTOR]
    versions = [one["metadata"]["resourceVersion"] for one in kept.values()]
    assert set(published(url, account).values()) == {"is unchanged"}
    assert [one["metadata"]["resourceVersion"] for one in kept.values()] == versions


def test_what_ends_soon_or_has_other_names_is_replaced_under_the_same_authority(
    url: str, kept: Kept, account: Path, tmp_path: Path
) -> None:
    published(url, account)
    authority = kept["hermes-ca-tls"]["data"]["tls.crt"]
    names = {**NAMES, Identity.AGENT: ["elsewhere.hermes.svc"]}
    done = published(url, account, names)
    assert done["hermes-agent-tls"] == "was replaced: it was for other names"
    assert done["hermes-executor-tls"] == "is unchanged"
    done = published(url, account, names, NOW + timedelta(days=300))
    assert all("expires soon" in done[f"hermes-{name}-tls"] for name in names)
    assert kept["hermes-agent-tls"]["data"]["ca.crt"] == authority
    check_files(files_of(kept, "hermes-agent-tls", tmp_path / "agent"), NOW + timedelta(days=600))


def test_an_authority_that_ends_soon_is_told_of(url: str, account: Path) -> None:
    published(url, account)
    done = published(url, account, now=NOW + timedelta(days=3400))
    assert "delete the Secret " in done["hermes-ca-tls"]


def test_a_refusal_says_what_is_wanting_and_no_secret(url: str, account: Path) -> None:
    (account / "token").write_text("another")
    with pytest.raises(FailedPrecondition, match="create, get and update") as refused:
        published(url, account)
    assert "another" not in str(refused.value)
    (account / "token").unlink()
    with pytest.raises(FailedPrecondition, match="in a pod of the cluster"):
        published(url, account)
