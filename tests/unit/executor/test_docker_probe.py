"""What is known about an engine's runtime from its version."""

import pytest

from executor_service.backends.docker.probe import runc_warning


@pytest.mark.parametrize("version", ["1.2.8", "1.2.10", "1.3.3", "1.4.0", "v1.4.1", "1.5.0+ds1"])
def test_repaired_versions_pass(version: str) -> None:
    assert runc_warning(version) == ""


@pytest.mark.parametrize(
    "version", ["1.0.0-rc93", "1.1.15", "1.2.7", "1.3.2", "1.4.0-rc.2", "1.2.0-rc.1"]
)
def test_versions_with_an_escape_are_named(version: str) -> None:
    warning = runc_warning(version)
    assert "CVE-2025-31133" in warning
    assert ("CVE-2024-21626" in warning) == version.startswith("1.0")


@pytest.mark.parametrize("version", ["", "unknown"])
def test_an_unknown_version_is_not_called_safe(version: str) -> None:
    assert "cannot be checked" in runc_warning(version)
