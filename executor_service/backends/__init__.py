"""Ways to make boxes, behind one seam: `executor_service.backends.base`.

A backend's modules are imported when it is first used, because hardly any installation has two.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Backend
from executor_service.config import ExecutorConfig

_READY_S = 3600


class Site(Struct, frozen=True):
    """What backends are made from."""

    owner: str
    """The installation that the boxes belong to."""
    folder: Path
    """Where a backend may keep records of its own."""
    supervisor: bytes
    """The program that runs in every box."""
    config: ExecutorConfig
    workspaces: Path
    """Contains a path for each workspace, which stands for it."""


def _docker(site: Site) -> Backend:
    from executor_service.backends.docker.backend import DockerBackend

    return DockerBackend(site.owner, site.folder / "docker", site.supervisor, site.config.docker)


def _modal(site: Site) -> Backend:
    from executor_service.backends.modal.account import LONGEST_LIFE_S
    from executor_service.backends.modal.backend import ModalBackend

    # A sandbox may have been kept ready for a while before its session's time began.
    lifetime_s = min(LONGEST_LIFE_S, int(site.config.max_age_s) + _READY_S)
    parts = (site.owner, site.folder / "modal", site.supervisor, site.config.modal)
    return ModalBackend(*parts, site.workspaces, lifetime_s)


def _bubblewrap(site: Site) -> Backend:
    from executor_service.backends.bubblewrap.backend import BubblewrapBackend

    return BubblewrapBackend(site.owner, site.folder / "bubblewrap", site.supervisor)


def _kubernetes(site: Site) -> Backend:
    from executor_service.backends.kubernetes.backend import KubernetesBackend

    # A box may have waited as long as it may live before it is claimed.
    lifetime_s = 2 * site.config.max_age_s
    return KubernetesBackend(site.owner, site.supervisor, site.config.kubernetes, lifetime_s)


def _local(site: Site) -> Backend:
    from executor_service.backends.local import LocalBackend, LocalOptions

    options = LocalOptions(is_allowed=site.config.home.allow_local_backend)
    return LocalBackend(site.owner, site.folder / "local", site.supervisor, options)


def _ssh(site: Site) -> Backend:
    from executor_service.backends.ssh.backend import SshBackend

    return SshBackend(site.owner, site.supervisor, site.config.ssh)


def _singularity(site: Site) -> Backend:
    from executor_service.backends.singularity.backend import SingularityBackend

    folder = site.folder / "singularity"
    return SingularityBackend(site.owner, folder, site.supervisor, site.config.singularity)


BACKENDS: Mapping[str, Callable[[Site], Backend]] = {
    "docker": _docker,
    "bubblewrap": _bubblewrap,
    "singularity": _singularity,
    "modal": _modal,
    "kubernetes": _kubernetes,
    "ssh": _ssh,
    "local": _local,
}

AUTOMATIC = ("docker", "bubblewrap")
"""Backends to try in order if none is configured; the others must be named."""
