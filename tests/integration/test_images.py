"""The images of the services: what is in them, how large they are, and that they start."""

import statistics
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.images import (
    READY_S,
    REPOSITORY,
    SERVICES,
    STARTS,
    attributes,
    base_of,
    certificates,
    container,
    inside,
    make_images,
    sbom,
    start,
    until_ready,
    variables,
)
from tests.support.markdown import pages
from tests.support.printed import printed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OURS_MB = {"agent": 340, "executor": 130, "gateway": 130, "scheduler": 130}
"""The agent's has Playwright's driver, 160 MB, for browsers that run elsewhere."""
"""Megabytes that an image may have above its base, uncompressed."""
NOT_NEEDED = (
    *("pip", "pip3", "gcc", "cc", "make", "curl", "wget", "git", "ssh", "docker", "nc", "gpg"),
    *("strip", "cyclonedx-py"),
)
"""Programs of the build, or of nobody, that an image does not have."""
WRITABLE = "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null || true"
FOR_EVERYBODY = {"/tmp", "/var/tmp", "/run/lock", "/home/hermes", "/var/lib/hermes"}
"""What is writable before a container makes all of it read-only."""


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    """All four, built."""
    make_images()


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_says_what_it_is(service: str) -> None:
    config = attributes(service)["Config"]
    labels = config["Labels"]
    assert labels["org.opencontainers.image.title"] == f"Hermes {service}"
    assert (
        labels["org.opencontainers.image.version"]
        == inside(service, "--version", entrypoint="hermes").removeprefix("hermes ").strip()
    )
    assert len(labels["org.opencontainers.image.revision"]) == 40
    assert labels["org.opencontainers.image.licenses"] == "MIT"
    assert config["User"] == "10000:10000"
    assert config["Entrypoint"] == ["tini", "--", "hermes"]
    assert config["Cmd"] == ["serve", service]
    assert config["Healthcheck"]["Test"] == ["CMD", "hermes", "health", service]


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_is_small(service: str) -> None:
    base = base_of(service)
    ours_mb = (attributes(service)["Size"] - attributes(base)["Size"]) / 1e6
    assert ours_mb <= OURS_MB[service]


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_what_it_needs_and_no_more(service: str) -> None:
    script = f"id -u; for name in {' '.join(NOT_NEEDED)}; do command -v $name || true; done"
    needed = ["/usr/bin/ssh"] if service == "executor" else []
    assert inside(service, "-c", script, entrypoint="sh").split() == ["10000", *needed]
    writable = set(inside(service, "-c", WRITABLE, entrypoint="sh").split())
    assert writable <= FOR_EVERYBODY, writable - FOR_EVERYBODY


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_lists_its_parts(service: str) -> None:
    said = inside(
        service,
        "-c",
        "from importlib.metadata import distributions\n"
        "for one in distributions(): print(one.name, one.version)",
        entrypoint="/opt/hermes/bin/python3",
    )
    there = dict(line.split() for line in said.splitlines())
    assert sbom(service) == there
    assert {"grpcio", "hermes-services"} <= set(there)
    assert ("openai" in there, "kubernetes" in there) == (service == "agent", service == "executor")


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_cannot_install_packages(service: str) -> None:
    """The base has pip where it comes from a registry; see test_image_bases."""
    recipe = (REPOSITORY / "docker/Dockerfile").read_text()
    assert f"\nFROM plain AS {service}\n" in recipe
    for python in ("/opt/hermes/bin/python3", "python3"):
        script = "from importlib.util import find_spec as f; print(f('pip'), f('ensurepip'))"
        assert inside(service, "-c", script, entrypoint=python) == "None None\n"


def test_an_image_keeps_nothing_of_the_host() -> None:
    base = base_of("agent")
    history = subprocess.run(
        ["docker", "history", "--no-trunc", "hermes/agent"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "BEGIN" not in history
    assert "index-url" not in history
    listing = "sha256sum /etc/ssl/certs/ca-certificates.crt; ls -A /etc/apt/apt.conf.d"
    ours = inside("agent", "-c", listing, entrypoint="sh")
    theirs = subprocess.run(
        ["docker", "run", "--rm", "--user=10000", "--entrypoint=sh", base, "-c", listing],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    assert ours == theirs


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_runs_read_only_and_says_so_to_its_probe(service: str, tmp_path: Path) -> None:
    with container(service, certificates(tmp_path / "pki", service)) as made:
        start(made)
        status, said = made.exec_run(["hermes", "health", service])
        assert (status, said.decode()) == (0, f"the {service} is ready\n")
        other = "agent" if service != "agent" else "gateway"
        status, said = made.exec_run(["hermes", "health", other])
        assert status == 1, said
        made.stop(timeout=30)
        said = made.logs().decode()
        assert "Traceback" not in said
        assert made.wait()["StatusCode"] == 0, said


def test_a_service_runs_as_is_printed(volume: str, tmp_path: Path) -> None:
    (text,) = (
        line.text for line in printed(pages()) if line.plain.startswith("docker run --read-only ")
    )
    certificates(tmp_path / "certs", "agent")
    settings = "".join(f"{name}={value}\n" for name, value in variables("agent").items())
    (tmp_path / "variables.env").write_text(settings)
    argv = ["bash", "-c", f"exec {text.replace('hermes-agent:', f'{volume}:')}"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        until_ready(running)
        running.terminate()
        assert running.wait(timeout=30) == 0


@pytest.fixture
def volume() -> Iterator[str]:
    """The name of a volume that goes after the test, with the containers that use it."""
    name = f"hermes-test-{uuid.uuid4().hex}"
    yield name
    with closing(docker.from_env(timeout=60)) as client:
        users: Any = client.containers.list(all=True, filters={"volume": name})
        for each in users:
            each.remove(force=True)
        client.volumes.get(name).remove()


@pytest.mark.alone
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_ready_soon(service: str, tmp_path: Path) -> None:
    pki, taken = certificates(tmp_path / "pki", service), list[float]()
    for _ in range(STARTS):
        with container(service, pki) as made:
            taken.append(start(made))
    assert statistics.median(taken) <= READY_S, taken
