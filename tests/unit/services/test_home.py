"""The home's folders: where they are, who may enter, and what is said when they cannot be used."""

import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.home.paths import HomeError, HomePaths, private_folder, replace_file
from tests.support.disks import small_disk
from tests.support.requirements import require
from tests.unit.services.settings import settings

NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def as_user(uid: int) -> Generator[None]:
    """Be somebody without root's rights."""
    require("root", os.geteuid() == 0, "only root can become somebody else")
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_services_need_is_made_for_the_owner_only(tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "new" / "home", tmp_path)
    home.create()
    home.create()
    folders = (home.root, home.state, home.run, home.logs, home.workspaces)
    assert [mode(folder) for folder in folders] == [0o700] * 5
    assert home.socket == home.run / "hermes.sock"
    assert home.database("agent") == home.state / "agent.db"


def test_an_existing_home_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "run").mkdir(mode=0o777)
    HomePaths(tmp_path, tmp_path).create()
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "run") == 0o700


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder whose path is short, as that of XDG_RUNTIME_DIR is."""
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        yield Path(folder)


def test_a_long_path_moves_the_socket_to_the_runtime_folder(tmp_path: Path, runtime: Path) -> None:
    longest = 107 - len(os.fsencode(tmp_path / "run" / "hermes.sock")) - 1
    fits = HomePaths(tmp_path / ("x" * longest), runtime)
    assert fits.socket.parent == fits.run
    home = HomePaths(tmp_path / ("x" * (longest + 1)), runtime)
    home.create()
    assert home.socket.parent.parent == runtime
    assert mode(home.socket.parent) == 0o700
    assert home.socket != HomePaths(tmp_path / ("y" * (longest + 1)), runtime).socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))


def test_a_folder_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    link = tmp_path / "link"
    link.symlink_to(mine)
    with pytest.raises(HomeError, match="is not a folder"):
        private_folder(link)
    require("root", os.geteuid() == 0, "only root can give a folder away")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    with pytest.raises(HomeError, match=f"belongs to user id {NOBODY}"):
        private_folder(tmp_path / "theirs")


def test_no_permission_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with as_user(NOBODY):
        for home in (HomePaths(tmp_path, tmp_path), HomePaths(tmp_path / "new", tmp_path)):
            with pytest.raises(
                HomeError, match=r"no permission to write to .*HERMES_HOME"
            ) as caught:
                home.create()
            assert "\n" not in str(caught.value)
        with pytest.raises(HomeError, match="no permission to write to"):
            replace_file(tmp_path / ".env", "A=1\n", 0o600)
    assert not list(tmp_path.iterdir())


def test_a_home_on_a_read_only_file_system_is_told_as_that(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mib=1) as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(HomeError, match="on a read-only file system; mount it writable, or"):
            HomePaths(disk / "home", tmp_path).create()
        with pytest.raises(HomeError, match="on a read-only file system; mount it writable, or"):
            replace_file(disk / ".env", "A=1\n", 0o600)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(tmp_path / "a", "new \ud800", 0o600)
    assert (tmp_path / "a").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_the_home_is_where_the_person_says(tmp_path: Path) -> None:
    environ = {"HERMES_HOME": "", "HOME": str(tmp_path)}
    assert settings(tmp_path, environ=environ).home.root == tmp_path / ".hermes"
    environ["HERMES_HOME"] = "~/other"
    assert settings(tmp_path, environ=environ).home.root == tmp_path / "other"
    found = settings(tmp_path, environ={"XDG_RUNTIME_DIR": "/run/me"}, flags={"home": "/h"})
    assert found.home == HomePaths(Path("/h"), Path("/run/me"))


def test_a_profile_is_a_home_of_its_own(tmp_path: Path) -> None:
    work = tmp_path / "profiles" / "work"
    with pytest.raises(HomeError, match=r"profile work: .*does not exist"):
        settings(tmp_path, flags={"profile": "work"})
    work.mkdir(parents=True)
    found = settings(tmp_path, environ={"HERMES_PROFILE": "work"})
    assert (found.home.root, found.profile) == (work, "work")
    assert settings(tmp_path).profile == "default"
    assert found.home.profile("default") is found.home
    with pytest.raises(HomeError, match="a name has letters"):
        settings(tmp_path, flags={"profile": "../x"})
