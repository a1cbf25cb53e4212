"""The small CA, and what is said about files that cannot be used."""

import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from services.errors import FailedPrecondition, InvalidArgument
from services.rpc import certs
from services.rpc.auth import Identity
from services.rpc.tls import TlsFiles, TlsInvalid, check_files

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("agent", "agent.hermes.svc", "127.0.0.1", "::1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certs.init(tmp_path / "pki", NOW)
    return tmp_path / "pki"


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_ca_lasts_ten_years_and_signs_services_only(folder: Path) -> None:
    ca = load(folder / "ca.crt")
    assert ca.not_valid_after_utc - NOW == timedelta(days=3650)
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert ca.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_a_certificate_has_the_identity_and_the_names(folder: Path) -> None:
    own = load(certs.issue(folder, Identity.AGENT, NAMES, NOW).certificate)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert uris == ["spiffe://hermes/agent"]
    assert names.get_values_for_type(x509.DNSName) == ["agent", "agent.hermes.svc"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert addresses == [ip_address("127.0.0.1"), ip_address("::1")]
    usages = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert own.not_valid_after_utc - NOW == timedelta(days=365)


def test_keys_are_for_their_owner_only(folder: Path) -> None:
    certs.issue(folder, Identity.AGENT, NAMES, NOW)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for key in ("ca.key", "agent.key"):
        assert stat.S_IMODE((folder / key).stat().st_mode) == 0o600


def test_nothing_is_replaced_without_force(folder: Path) -> None:
    files = certs.issue(folder, Identity.AGENT, NAMES, NOW)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FailedPrecondition, match=r"ca\.crt is there already; --force"):
        certs.init(folder, NOW)
    with pytest.raises(FailedPrecondition, match=r"agent\.crt is there already; --force"):
        certs.issue(folder, Identity.AGENT, NAMES, NOW)
    files.certificate.unlink()
    with pytest.raises(FailedPrecondition, match=r"agent\.key is there already"):
        certs.issue(folder, Identity.AGENT, NAMES, NOW)
    certs.issue(folder, Identity.AGENT, NAMES, NOW, force=True)
    certs.init(folder, NOW, force=True)
    assert all(path.read_bytes() != content for path, content in before.items())
    assert set(folder.iterdir()) == set(before)


def test_issuing_needs_a_ca_that_is_valid(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="make one with `hermes certs init`"):
        certs.issue(tmp_path, Identity.AGENT, NAMES, NOW)
    with pytest.raises(TlsInvalid, match="has expired; make a new CA"):
        certs.issue(folder, Identity.AGENT, NAMES, NOW + timedelta(days=3650))


def test_a_name_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="neither a DNS name nor an IP address"):
        certs.issue(folder, Identity.AGENT, ["bücher"], NOW)
    assert not certs.files_of(folder, Identity.AGENT).key.exists()


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (timedelta(days=365), "agent.crt expired on 2027-01-01; issue a new one"),
        (timedelta(days=-1), "agent.crt is not valid before 2025-12-31 23:55 UTC; is the clock"),
    ],
)
def test_a_certificate_has_its_time(folder: Path, after: timedelta, problem: str) -> None:
    files = certs.issue(folder, Identity.AGENT, NAMES, NOW)
    with pytest.raises(TlsInvalid) as caught:
        check_files(files, NOW + after)
    assert problem in caught.value.message


def test_what_is_wrong_with_files_is_said_in_one_line(folder: Path, tmp_path: Path) -> None:
    files = certs.issue(folder, Identity.AGENT, NAMES, NOW)
    other = tmp_path / "other"
    certs.init(other, NOW)
    strange = certs.issue(other, Identity.AGENT, NAMES, NOW)
    text = tmp_path / "text"
    text.write_text("hello")
    missing = tmp_path / "missing"
    not_a_pair = "are not a certificate and its key in PEM form"
    problems = {
        TlsFiles(missing, files.certificate, files.key): "missing: No such file or directory",
        TlsFiles(files.ca, missing, files.key): "missing: No such file or directory",
        TlsFiles(files.ca, files.certificate, missing): "missing: No such file or directory",
        TlsFiles(text, files.certificate, files.key): "text is not a CA certificate in PEM form",
        TlsFiles(files.ca, text, files.key): not_a_pair,
        TlsFiles(files.ca, files.certificate, text): not_a_pair,
        TlsFiles(files.ca, files.certificate, strange.key): "do not belong together",
        TlsFiles(strange.ca, files.certificate, files.key): "was not issued by the CA in",
    }
    for wrong, problem in problems.items():
        with pytest.raises(TlsInvalid) as caught:
            check_files(wrong, NOW)
        assert problem in caught.value.message
        assert "\n" not in caught.value.message


def test_two_authorities_in_a_file_are_both_trusted(folder: Path, tmp_path: Path) -> None:
    """As while one CA takes over from another."""
    files = certs.issue(folder, Identity.AGENT, NAMES, NOW)
    other = tmp_path / "other"
    certs.init(other, NOW)
    both = tmp_path / "both.crt"
    both.write_bytes((other / "ca.crt").read_bytes() + files.ca.read_bytes())
    check_files(TlsFiles(both, files.certificate, files.key), NOW)
    assert len(both.read_bytes().split(b"BEGIN CERTIFICATE")) == 3
