"""Who commands are on engines of several kinds, by what the engines say of themselves."""

from pathlib import Path

import pytest

from executor_service.backends.docker.engine import EngineAddress
from executor_service.backends.docker.users import BoxUser, find_user
from executor_service.errors import BackendUnavailable

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
