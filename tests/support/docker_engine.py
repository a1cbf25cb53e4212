"""The real Docker engine that tests use, or a visible skip where there is none.

Its SDK blocks: tests that have an event loop call it in threads.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
from docker.errors import DockerException, ImageNotFound

from tests.support.requirements import require
from tests.support.users import UID

SANDBOX_IMAGE = "hermes-sandbox:latest"


def docker_client() -> docker.DockerClient:
    """A client of the engine, which has the sandbox image."""
    require("docker", *engine_answers())
    client = docker.from_env(timeout=30)
    try:
        client.images.get(SANDBOX_IMAGE)
    except ImageNotFound:
        client.close()
        require("docker", False, f"there is no image {SANDBOX_IMAGE}: run `make sandbox-image`")
    return client


@cache
def engine_answers() -> tuple[bool, str]:
    """Whether an engine answers, and if not, why."""
    url = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    if url.scheme == "unix":
        # The SDK leaves a socket behind where it is not let in.
        try:
            with closing(socket.socket(socket.AF_UNIX)) as connection:
                connection.connect(url.path)
        except OSError as error:
            return False, f"no engine answers at {url.path}: {error.strerror}"
    try:
        with closing(docker.from_env(timeout=30)) as client:
            client.ping()
    except DockerException as error:
        return False, f"no engine answers: {error}"
    return True, ""


def run_in(client: docker.DockerClient, container: str, *argv: str) -> tuple[int, str]:
    """Run a command in a container as its own user; exit status and output."""
    result: Any = client.containers.get(container).exec_run(list(argv))
    return result.exit_code, result.output.decode(errors="replace").strip()


_STARTS_WITHIN_S = 60
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


_WITH_OWN_ETC = """
for file in "$0"/*; do mount --bind "$file" "/etc/${file##*/}" || exit; done
exec "$@"
"""
"""Starts what sees files of a folder in place of those of /etc."""
_WITHOUT_THE_FIRST_ONES_FILES = """
rm -f /run/docker /run/containerd /run/xtables.lock
exec "$@"
"""
_FIRST_SUBORDINATE = 300_000
"""The range of users of an engine that has one of its own begins here."""
_SUBORDINATES = 65536


@dataclass(slots=True)
class OwnEngine:
    """An engine of a test's own, which may do with it what it wants."""

    folder: Path
    through: tuple[str, ...] = ()
    """A program that runs it."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Where it listens."""
        return f"unix://{self.folder}/engine.sock"

    def client(self) -> docker.DockerClient:
        """A client of it."""
        return docker.DockerClient(base_url=self.host, timeout=60)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = self.folder
        (folder / "none.json").write_text("{}")
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    # Without a bridge of its own it removes docker0, which is the first engine's.
                    *("unshare", "--net", *self.through),
                    *("dockerd", "--config-file", str(folder / "none.json"), "--host", self.host),
                    *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                    *("--pidfile", str(folder / "pid"), "--shutdown-timeout", "1"),
                    *("--bridge", "none", "--iptables=false", "--ip-masq=false"),
                ],
                stdout=log,
                stderr=log,
                env={"PATH": _PATH, "HOME": str(folder)},
            )
        give_up_at = time.monotonic() + _STARTS_WITHIN_S
        while not self._answers():
            assert time.monotonic() < give_up_at, (folder / "log").read_text()[-2000:]
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it as an operator does, which ends its containers."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        # The SDK leaves a socket behind where nobody listens.
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(self.host.removeprefix("unix://"))
                sock.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in sock.recv(64)
            except OSError:
                return False


@contextmanager
def own_engine() -> Generator[OwnEngine]:
    """A second engine with the sandbox image, for the time of the block."""
    with _folder() as folder, _running(OwnEngine(folder)) as engine:
        yield engine


@contextmanager
def rootless_engine() -> Generator[OwnEngine]:
    """One that an ordinary user runs, UID: root in its containers is that user."""
    missing = [name for name in ("rootlesskit", "newuidmap") if not shutil.which(name, path=_PATH)]
    require("rootless", not missing, f"there is no {' and no '.join(missing)}")
    with _folder() as folder:
        users = f"hermes:x:{UID}:{UID}::{folder}:/bin/sh\n{Path('/etc/passwd').read_text()}"
        through = (
            *_with_own_etc(folder, "hermes", passwd=users),
            *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
            *("env", f"XDG_RUNTIME_DIR={folder}"),
            *("rootlesskit", "--net=host", "--copy-up=/etc", "--copy-up=/run"),
            *("sh", "-c", _WITHOUT_THE_FIRST_ONES_FILES, "engine"),
        )
        os.chown(folder, UID, UID)
        with _running(OwnEngine(folder, through)) as engine:
            yield engine


def _with_own_etc(folder: Path, owner: str, **files: str) -> tuple[str, ...]:
    """A program that runs another, to which a range of users belongs to an owner."""
    subordinates = f"{owner}:{_FIRST_SUBORDINATE}:{_SUBORDINATES}\n"
    etc = folder / "etc"
    etc.mkdir()
    for name, content in {"subuid": subordinates, "subgid": subordinates, **files}.items():
        (etc / name).write_text(content)
    return ("--mount", "sh", "-c", _WITH_OWN_ETC, str(etc))


@contextmanager
def _folder() -> Generator[Path]:
    can_start = os.geteuid() == 0 and shutil.which("dockerd", path=_PATH) is not None
    require("docker", can_start, "starting an engine of one's own needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="hermes-engine-"))
    # Other users of its containers have to come through.
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(engine: OwnEngine) -> Generator[OwnEngine]:
    first = docker_client()
    try:
        engine.start()
        second = engine.client()
        image: Any = first.images.get(SANDBOX_IMAGE)
        second.images.load(image.save(named=SANDBOX_IMAGE))
        second.close()
        yield engine
    finally:
        engine.stop()
        first.close()
