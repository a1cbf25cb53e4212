"""What the images do with a base of a registry, and with an engine elsewhere."""

import ensurepip
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pip
import pytest

from tests.support.images import REPOSITORY, base_of, make_images
from tests.support.requirements import require
from tests.support.ssh_to_engine import ssh_to_engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HERMES = 10000
BASE, MADE = "hermes-test/base-with-pip", "hermes-test/plain"
WITH_PIP = """\
FROM {base}
COPY pip /usr/local/lib/python{python}/dist-packages/pip
COPY ensurepip /usr/local/lib/python{python}/ensurepip
RUN printf '#!/bin/sh\\nexec python3 -m pip "$@"\\n' >/usr/local/bin/pip
RUN chmod +x /usr/local/bin/pip
"""
"""A base with what installs packages where images of Python have it."""
LOOK = "pip --version; python3 -m pip --version; ls -d /usr/local/lib/python3*/ensurepip"
ASK = """\
import asyncio
from executor_service.backends.docker.engine import Engine, EngineAddress

async def ask():
    engine = Engine(EngineAddress("{url}"))
    print((await engine.ask("GET", "/version"))["ApiVersion"])
    await engine.close()

asyncio.run(ask())
"""


def docker(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *argv], check=False, capture_output=True, text=True)


@pytest.fixture
def with_pip(tmp_path: Path) -> Iterator[str]:
    """The base of the images here, with pip."""
    base = base_of("agent")
    version = docker("run", "--rm", base, "python3", "-c", "import sys; print(sys.version_info[1])")
    for module in (pip, ensurepip):
        shutil.copytree(Path(module.__path__[0]), tmp_path / module.__name__)
    text = WITH_PIP.format(base=base, python=f"3.{version.stdout.strip()}")
    (tmp_path / "Dockerfile").write_text(text)
    built = docker("buildx", "build", "--load", f"--tag={BASE}", str(tmp_path))
    assert built.returncode == 0, built.stderr
    yield BASE
    docker("image", "rm", "--force", BASE, MADE)


def test_a_base_loses_what_installs_packages(with_pip: str) -> None:
    built = docker(
        *("buildx", "build", "--load", f"--file={REPOSITORY}/docker/Dockerfile", "--target=plain"),
        *(f"--build-arg=BASE={with_pip}", f"--tag={MADE}", str(REPOSITORY)),
    )
    assert built.returncode == 0, built.stderr
    run = ("run", "--rm", "--network=none", "--entrypoint=sh")
    assert docker(*run, with_pip, "-c", LOOK).stdout.count("pip") >= 3
    assert docker(*run, MADE, "-c", LOOK).stdout == ""


def test_an_executor_reaches_an_engine_by_ssh() -> None:
    require("root", os.geteuid() == 0, "files of a Secret are root's")
    make_images()
    with ssh_to_engine() as server:
        account = server.folder / "mounted"
        account.mkdir()
        # As the chart mounts a Secret: root's, readable for the group of the pod.
        for name in ("config", "id_ed25519", "known_hosts"):
            shutil.copy(server.folder / name, account / name)
            os.chown(account / name, 0, HERMES)
            (account / name).chmod(0o440)
        text = (account / "config").read_text()
        (account / "config").write_text(text.replace(str(server.folder), "/home/hermes/.ssh"))
        run = ("run", "--rm", "--read-only", "--cap-drop=ALL", "--network=host", "--tmpfs=/tmp")
        mount = f"--volume={account}:/home/hermes/.ssh:ro"
        python = ("--entrypoint=/opt/hermes/bin/python3", "hermes/executor", "-c")
        said = docker(*run, mount, *python, ASK.format(url=server.url))
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("1.")
