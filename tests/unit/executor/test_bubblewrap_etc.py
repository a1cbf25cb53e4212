"""The copy of /etc that bubblewrap boxes see."""

import os
from pathlib import Path

import pytest

from executor_service.backends.bubblewrap.host import install_etc


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    (folder / "ssl/certs").mkdir(parents=True)
    (folder / "ssl/certs/ca.crt").write_text("a certificate")
    (folder / "ssl/certs/ca.link").symlink_to("/usr/share/ca.crt")
    (folder / "ssl/certs/own.key").write_text("a key")
    (folder / "ssl/certs/own.key").chmod(0o600)
    (folder / "services").write_text("ssh 22/tcp")
    (folder / "shadow").write_text("root:x")
    (folder / "passwd").write_text("root:x:0:0")
    return folder


def test_a_copy_shows_no_more_than_the_files(tmp_path: Path, source: Path) -> None:
    copy = install_etc(tmp_path, source)
    assert (copy / "services").read_text() == "ssh 22/tcp"
    assert (copy / "ssl/certs/ca.crt").read_text() == "a certificate"
    assert (copy / "ssl/certs/own.key").stat().st_mode & 0o777 == 0o600
    assert "hermes" in (copy / "passwd").read_text()
    assert not (copy / "shadow").exists()
    assert all((copy / folder).stat().st_mode & 0o777 == 0o755 for folder in (".", "ssl"))


def test_changes_of_the_machine_are_seen_by_later_boxes_only(tmp_path: Path, source: Path) -> None:
    before = install_etc(tmp_path, source)
    assert install_etc(tmp_path, source) == before
    (source / "ssl/certs/new.crt").write_text("another certificate")
    os.utime(source / "ssl/certs", ns=(0, 1))
    after = install_etc(tmp_path, source)
    assert (after / "ssl/certs/new.crt").exists()
    assert not (before / "ssl/certs/new.crt").exists()


def test_another_time_zone_is_seen_although_all_have_the_same_time(
    tmp_path: Path, source: Path
) -> None:
    for zone in ("Berlin", "Lima"):
        (tmp_path / zone).write_text(zone)
        os.utime(tmp_path / zone, ns=(0, 1))
        (source / "localtime").unlink(missing_ok=True)
        (source / "localtime").symlink_to(tmp_path / zone)
        assert (install_etc(tmp_path, source) / "localtime").read_text() == zone
