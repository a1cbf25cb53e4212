"""The sandbox image and the script that makes it."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from tests.support.docker_engine import SANDBOX_IMAGE
from tests.support.images import need_plugins

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker"
BASE, TARGET = "hermes-test/sandbox-base", "hermes-test/sandbox"
BEFORE_ITS_SETUP = f"""\
FROM {SANDBOX_IMAGE}
USER 0
ENV PATH=/usr/sbin:/usr/bin LANG=
WORKDIR /
CMD ["/bin/sh"]
RUN userdel hermes && rm -r /workspace && chmod u+s /usr/bin/su
"""
"""The image with its packages, so that no network is needed, and without what is made of them."""
FILES = "find / -xdev -path /proc -prune -o -path /sys -prune -o -path /dev -prune -o -printf"


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FOLDER / "sandbox-image"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def inside(
    engine: docker.DockerClient, script: str, user: str = "1000:1000", image: str = SANDBOX_IMAGE
) -> str:
    output: bytes = engine.containers.run(
        image, ["bash", "-c", script], network_mode="none", user=user, remove=True
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


def test_it_has_the_names_that_the_chart_asks_for(engine: docker.DockerClient) -> None:
    assert make().returncode == 0
    chart = yaml.safe_load((ROOT / "helm/hermes/Chart.yaml").read_text())
    values = yaml.safe_load((ROOT / "helm/hermes/values.yaml").read_text())
    made = engine.images.get(SANDBOX_IMAGE).id
    for repository in (values["sandbox"]["image"]["repository"], "hermes-sandbox"):
        assert engine.images.get(f"{repository}:{chart['appVersion']}").id == made


@pytest.fixture
def base(engine: docker.DockerClient) -> Iterator[str]:
    """On which the target can stand."""
    engine.images.build(fileobj=io.BytesIO(BEFORE_ITS_SETUP.encode()), tag=BASE, rm=True)
    yield BASE
    for made in (TARGET, BASE):
        for image in engine.images.list(made):
            engine.images.remove(str(image.id), force=True)


def by_the_program(base: str) -> subprocess.CompletedProcess[str]:
    return make("--via", "registry", "--base", base, "--repository", TARGET)


def by_buildx(base: str) -> subprocess.CompletedProcess[str]:
    need_plugins()
    command = ["docker", "buildx", "build", "--load", "--file=docker/Dockerfile"]
    command += ["--target=sandbox", f"--build-arg=SANDBOX_BASE={base}", f"--tag={TARGET}", "."]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("build", [by_the_program, by_buildx])
def test_the_target_makes_the_same_image(
    engine: docker.DockerClient, base: str, build: Any
) -> None:
    built = build(base)
    assert built.returncode == 0, built.stderr
    configs = [engine.images.get(name).attrs["Config"] for name in (TARGET, SANDBOX_IMAGE)]
    for name in ("Env", "WorkingDir", "User", "Cmd"):
        assert configs[0][name] == configs[1][name]
    listing = rf"{FILES} '%M %U %G %p\n' | sort"
    there, here = (
        set(inside(engine, listing, "0", name).splitlines()) for name in (TARGET, SANDBOX_IMAGE)
    )
    assert len(here) > 10_000
    assert there ^ here == set()


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
