"""Ways to make boxes, behind one seam: `executor_service.backends.base`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from executor_service.backends.base import Backend
from executor_service.backends.bubblewrap import BubblewrapBackend
from executor_service.backends.docker import DockerBackend, DockerOptions
from executor_service.backends.engine import EngineAddress
from executor_service.config import ExecutorConfig


@dataclass(frozen=True, slots=True)
class Site:
    """What backends are made from."""

    owner: str
    """Which installation the boxes belong to."""
    folder: Path
    """Where a backend may keep notes of its own."""
    supervisor: bytes
    """The program that runs in every box."""
    config: ExecutorConfig


def _docker(site: Site) -> Backend:
    docker = site.config.docker
    address = EngineAddress(docker.host, docker.ca, docker.certificate, docker.key)
    options = DockerOptions(address, docker.image, docker.runtime)
    return DockerBackend(site.owner, site.supervisor, options)


def _bubblewrap(site: Site) -> Backend:
    return BubblewrapBackend(site.owner, site.folder / "bubblewrap", site.supervisor)


BACKENDS: Mapping[str, Callable[[Site], Backend]] = {
    "docker": _docker,
    "bubblewrap": _bubblewrap,
}
"""Every backend by its name."""

AUTOMATIC = ("docker", "bubblewrap")
"""Where none is configured, the first of these that can be used is; the others are taken only by
their name."""
