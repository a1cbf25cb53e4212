"""Which folders `terminal.mount_cwd` leaves out, with the reason."""

from pathlib import Path

import pytest

from services.cli.chat.command import why_not_mounted
from tests.unit.services.settings import settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Hermes in the home folder, beside a project."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for name in ("me/hermes/skills", "me/project"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "me")
    return tmp_path / "me" / "hermes"


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("me/project", ""),
        ("me", "the home folder itself"),
        ("link", "the home folder itself"),
        ("me/hermes", "which holds keys"),
        ("me/hermes/skills", "which holds keys"),
        (".", "which holds keys"),
        ("/", "the whole file system"),
    ],
)
def test_folders_that_no_executor_binds_are_left_out(
    tmp_path: Path, home: Path, folder: str, why: str
) -> None:
    said = why_not_mounted(settings(home), tmp_path / folder)
    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize("service", ["gateway", "executor"])
def test_folders_are_left_out_where_commands_run_elsewhere(
    tmp_path: Path, home: Path, service: str
) -> None:
    def said(address: str) -> str:
        variables = {f"HERMES_{service.upper()}_ADDRESS": address}
        return why_not_mounted(settings(home, environ=variables), tmp_path / "me" / "project")

    assert said("example.org:50051") == (f"the {service} is on another machine (example.org:50051)")
    assert said("127.0.0.1:50051") == ""
    assert said(f"unix:{tmp_path}/other.sock") == ""
