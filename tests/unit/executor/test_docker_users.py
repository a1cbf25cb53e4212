"""Who commands are on engines of several kinds, by what the engines say of themselves."""

import os
from pathlib import Path

import pytest

from executor_service.backends.docker.engine import EngineAddress
from executor_service.backends.docker.users import BoxUser, find_user
from executor_service.errors import BackendUnavailable, BoxCreateFailed
from tests.support.requirements import require

PLAIN = {"SecurityOptions": ["name=seccomp,profile=default"], "DockerRootDir": "/var/lib/docker"}
REMAPPED = {
    "SecurityOptions": ["name=seccomp,profile=default", "name=userns"],
    "DockerRootDir": "/var/lib/docker/100000.200000",
}
HERE = EngineAddress()
ELSEWHERE = EngineAddress("tcp://engine:2376", ca_file="ca.pem")


@pytest.mark.parametrize(
    ("info", "address", "executor", "user"),
    [
        (PLAIN, HERE, 0, BoxUser(1000, 1000, 1000)),
        (PLAIN, HERE, 1234, BoxUser(1234, 1234, 1234)),
        (PLAIN, ELSEWHERE, 1234, BoxUser(1000, 1000, 1000)),
        (REMAPPED, HERE, 0, BoxUser(1000, 101000, 201000)),
        (REMAPPED, HERE, 100000, BoxUser(0, 100000, 200000)),
        (REMAPPED, ELSEWHERE, 1234, BoxUser(1000, 1000, 1000)),
    ],
)
def test_who_commands_are(
    info: dict[str, object], address: EngineAddress, executor: int, user: BoxUser
) -> None:
    assert find_user(info, address, executor) == user


@pytest.mark.parametrize(
    ("usual", "owner", "named"),
    [
        (BoxUser(1000, 1000, 1000), (0, 0), "0:0"),
        (BoxUser(1000, 1000, 1000), (1234, 100), "1234:100"),
        (BoxUser(1000, 101000, 201000), (101234, 201234), "1234:1234"),
        (BoxUser(1000, 101000, 201000), (101234, 50), "1234:1234"),
    ],
)
def test_commands_in_a_bound_folder_are_its_owner(
    tmp_path: Path, usual: BoxUser, owner: tuple[int, int], named: str
) -> None:
    require("root", os.geteuid() == 0, "only root can give folders away")
    os.chown(tmp_path, *owner)
    assert usual.for_folder(tmp_path, is_bound=True).named == named
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_gid) == owner


def test_a_bound_folder_of_a_user_outside_the_range_is_refused(tmp_path: Path) -> None:
    require("root", os.geteuid() == 0, "only root can give folders away")
    with pytest.raises(BoxCreateFailed, match=r"belongs to user 0.*backend bubblewrap"):
        BoxUser(1000, 101000, 201000).for_folder(tmp_path, is_bound=True)
    assert tmp_path.stat().st_uid == 0


def test_nobody_is_guessed() -> None:
    with pytest.raises(BackendUnavailable, match="run Hermes as root"):
        find_user(REMAPPED, HERE, 1234)
    with pytest.raises(BackendUnavailable, match="cannot be told by its folder /srv/docker"):
        find_user({**REMAPPED, "DockerRootDir": "/srv/docker"}, HERE, 0)


def test_a_rootless_engine_is_its_users_alone(tmp_path: Path) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    user, address = socket.stat().st_uid, EngineAddress(f"unix://{socket}")
    rootless = {**PLAIN, "SecurityOptions": ["name=rootless"]}
    with pytest.raises(BackendUnavailable, match=f"run Hermes as user {user}"):
        find_user(rootless, address, user + 1)
    socket.unlink()
    with pytest.raises(BackendUnavailable, match="no Docker engine answers"):
        find_user(rootless, address, user)
