"""The images of the services, really built, and containers of them."""

import functools
import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
import pytest

from services.rpc import certs
from services.rpc.auth import Identity
from tests.support.docker_engine import engine_answers
from tests.support.requirements import require

REPOSITORY = Path(__file__).parents[2]
SERVICES = ("agent", "executor", "gateway", "scheduler")
PORT = 7401
READY_S = 3.0
"""How long a service may take from the start of its container until it takes calls."""
STARTS = 3
"""How often one is started, of which the median counts."""
ENGINE = Path("/var/run/docker.sock")


def need_plugins() -> None:
    """Skip where Docker lacks a plug-in."""
    missing = [name for name in ("buildx", "compose") if not _answers("docker", name, "version")]
    require("images", not missing, f"Docker lacks {' and '.join(missing)}: docker/get-plugins")


@functools.cache
def make_images() -> str:
    """Build what of the images is not built yet; what was said of it."""
    need_plugins()
    require("docker", *engine_answers())
    made = subprocess.run(
        [sys.executable, "docker/service-images"],
        cwd=REPOSITORY,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert made.returncode == 0, made.stdout[-4000:]
    return made.stdout


def base_of(service: str) -> str:
    """What an image stands on, as its build said."""
    lines = make_images().splitlines()
    made = [line for line in lines if f"made hermes/{service}:" in line]
    return made[-1].rpartition(" of ")[2]


def _answers(*argv: str) -> bool:
    try:
        return subprocess.run(argv, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def inside(service: str, *argv: str, entrypoint: str) -> str:
    """What a program says in a container of a service's image, which writes nothing."""
    run = ["docker", "run", "--rm", "--read-only", "--network=none", f"--entrypoint={entrypoint}"]
    done = subprocess.run(
        [*run, f"hermes/{service}", *argv], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def certificates(folder: Path, service: str) -> Path:
    """A folder with an authority's certificate and the pair of a service named localhost."""
    certs.init(folder, datetime.now(UTC))
    certs.issue(folder, Identity(service), ["localhost"], datetime.now(UTC))
    for file in folder.iterdir():
        file.chmod(0o644)  # for the images' user, who is nobody here
    folder.chmod(0o755)
    return folder


def variables(service: str) -> dict[str, str]:
    """The settings of a service that has its certificates in /certs."""
    return {
        "HERMES_LISTEN": f"0.0.0.0:{PORT}",
        **{f"HERMES_{name.upper()}_ADDRESS": f"localhost:{PORT}" for name in SERVICES},
        "HERMES_TLS_CA": "/certs/ca.crt",
        "HERMES_TLS_CERTIFICATE": f"/certs/{service}.crt",
        "HERMES_TLS_KEY": f"/certs/{service}.key",
    }


@contextmanager
def container(service: str, pki: Path) -> Generator[Any]:
    """A container of a service as it should be run: all is read-only but its home and /tmp."""
    environment = {
        **variables(service),
        "HERMES_BACKEND": "docker",
        "HERMES_WARM_POOL_SIZE": "0",
        "HERMES_KEEP_SANDBOXES": "false",
    }
    client = docker.from_env(timeout=60)
    made: Any = client.containers.create(
        f"hermes/{service}",
        environment=environment,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        network_mode="none",
        # Without an engine an executor does not start; those of users have one of their own.
        group_add=[ENGINE.stat().st_gid] if service == "executor" else [],
        tmpfs={"/tmp": "mode=1777", "/var/lib/hermes": "uid=10000,mode=0700"},
        volumes={
            str(pki): {"bind": "/certs", "mode": "ro"},
            **({str(ENGINE): {"bind": str(ENGINE)}} if service == "executor" else {}),
        },
    )
    try:
        yield made
    finally:
        made.remove(force=True)
        client.close()


def start(made: Any) -> float:
    """Start a container, and return how many seconds it took until its service was ready.

    Without those that it had to wait for a processor, as those are what else the machine does.
    """
    argv = ["docker", "logs", "--follow", f"--since={time.time():f}", made.id]
    began = time.monotonic()
    made.start()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as attached:
        until_ready(attached)
        taken_s = time.monotonic() - began
        attached.kill()
    made.reload()
    return taken_s - _waited_s(made.attrs["State"]["Pid"])


def _waited_s(init: int) -> float:
    """How long the first thread of what tini has started was ready to run, and did not."""
    (service,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
    _, waited_ns, _ = Path(f"/proc/{service}/schedstat").read_text().split()
    return int(waited_ns) / 1e9


def until_ready(attached: "subprocess.Popen[bytes]") -> None:
    """Read what a service says until it is ready; one that ends first is a failure."""
    assert attached.stdout is not None
    said = list[bytes]()
    for line in attached.stdout:
        said.append(line)
        if b" ready on " in line:
            return
    pytest.fail(f"it ended: {b''.join(said).decode()}")


def sbom(service: str) -> dict[str, str]:
    """What an image says is in it, by name, and the versions."""
    path = attributes(service)["Config"]["Labels"]["org.hermes.sbom"]
    said = json.loads(inside(service, path, entrypoint="cat"))
    return {part["name"]: part["version"] for part in said["components"]}


def attributes(tag: str) -> Any:
    """What the engine says of an image."""
    name = tag if ":" in tag else f"hermes/{tag}"
    with closing(docker.from_env(timeout=60)) as client:
        return client.images.get(name).attrs
