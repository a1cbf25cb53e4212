"""The sandbox image and the script that makes it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.docker_engine import SANDBOX_IMAGE, docker_client

FOLDER = Path(__file__).resolve().parents[2] / "docker"


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker_client()
    yield client
    client.close()


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FOLDER / "sandbox-image"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def inside(engine: docker.DockerClient, script: str, user: str = "1000:1000") -> str:
    output: bytes = engine.containers.run(
        SANDBOX_IMAGE, ["bash", "-c", script], network_mode="none", user=user, remove=True
    )
    return output.decode().strip()


def test_every_listed_package_is_installed(engine: docker.DockerClient) -> None:
    lines = (FOLDER / "sandbox-packages.txt").read_text().splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    installed = inside(engine, "dpkg-query --show --showformat '${Package}\\n'").splitlines()
    assert len(listed) > 20
    assert listed <= set(installed)


def test_it_is_made_for_boxes(engine: docker.DockerClient) -> None:
    assert inside(engine, "id -u; id -g; pwd; stat -c %u /workspace").split() == [
        *("1000", "1000", "/workspace", "1000")
    ]
    modern = "import sys, ctypes, venv; print(sys.version_info >= (3, 8))"
    assert inside(engine, f"python3 -c '{modern}'") == "True"
    assert inside(engine, "find / -xdev -type f -perm /6000", user="0") == ""


def test_it_says_nothing_of_the_host_that_made_it(engine: docker.DockerClient) -> None:
    traces = "/etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap"
    assert inside(engine, f"cat {traces} /etc/machine-id 2>/dev/null; true") == ""


def test_making_it_again_does_nothing(engine: docker.DockerClient) -> None:
    before = engine.images.get(SANDBOX_IMAGE).id
    again = make()
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    assert engine.images.get(SANDBOX_IMAGE).id == before


def test_without_an_engine_it_says_so_in_one_line() -> None:
    result = make(DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert result.returncode == 1
    assert "no Docker engine answers" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_mmdebstrap_it_says_what_to_install(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    result = make(*("--via", "packages", "--repository", "hermes-test-none"), PATH=str(tmp_path))
    assert result.returncode == 1
    assert "apt-get install mmdebstrap" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not engine.images.list("hermes-test-none")
