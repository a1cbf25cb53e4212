"""Ways to make boxes, behind one seam: `executor_service.backends.base`.

A backend's own modules are imported when it is made: hardly anybody has more than one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from executor_service.backends.base import Backend, Isolation
from executor_service.config import ExecutorConfig

_READY_S = 3600


class Site(Struct, frozen=True):
    """What backends are made from."""

    owner: str
    """Which installation the boxes belong to."""
    folder: Path
    """Where a backend may keep notes of its own."""
    supervisor: bytes
    """The program that runs in every box."""
    config: ExecutorConfig


def _docker(site: Site) -> Backend:
    from executor_service.backends.docker.backend import DockerBackend, DockerOptions
    from executor_service.backends.docker.engine import EngineAddress

    docker = site.config.docker
    address = EngineAddress(docker.host, docker.ca, docker.certificate, docker.key)
    options = DockerOptions(address, docker.image, docker.runtime)
    return DockerBackend(site.owner, site.folder / "docker", site.supervisor, options)


def _modal(site: Site) -> Backend:
    from executor_service.backends.modal.account import LONGEST_LIFE_S, ModalOptions
    from executor_service.backends.modal.backend import ModalBackend

    modal = site.config.modal
    options = ModalOptions(
        modal.token_id.get_secret_value(),
        modal.token_secret.get_secret_value(),
        modal.server_url,
        modal.app,
        modal.environment,
        modal.region,
        modal.image,
        # A sandbox may have been kept ready for a while before its session's time began.
        lifetime_s=min(LONGEST_LIFE_S, int(site.config.max_age_s) + _READY_S),
    )
    return ModalBackend(site.owner, site.folder / "modal", site.supervisor, options)


def _bubblewrap(site: Site) -> Backend:
    from executor_service.backends.bubblewrap.backend import BubblewrapBackend

    return BubblewrapBackend(site.owner, site.folder / "bubblewrap", site.supervisor)


def _kubernetes(site: Site) -> Backend:
    from executor_service.backends.kubernetes.api import ClusterAddress
    from executor_service.backends.kubernetes.backend import KubernetesBackend
    from executor_service.backends.kubernetes.pod import KubernetesOptions

    chosen = site.config.kubernetes
    options = KubernetesOptions(
        address=ClusterAddress(chosen.kubeconfig, chosen.context),
        namespace=chosen.namespace,
        release=chosen.release,
        image=chosen.image,
        pull_secrets=chosen.pull_secrets,
        runtime_class=chosen.runtime_class,
        isolation=Isolation(chosen.isolation),
        host_users=chosen.host_users,
        node_limits_pids=chosen.node_limits_pids,
        seccomp_profile=chosen.seccomp_profile,
        node_selector=chosen.node_selector,
        tolerations=chosen.tolerations,
        workspace_claim=chosen.workspace_claim,
        # A box may have waited as long as it may live before it is claimed.
        max_age_s=2 * site.config.max_age_s,
        start_timeout_s=chosen.start_timeout_s,
    )
    return KubernetesBackend(site.owner, site.supervisor, options)


def _local(site: Site) -> Backend:
    from executor_service.backends.local import LocalBackend, LocalOptions

    options = LocalOptions(is_allowed=site.config.home.allow_local_backend)
    return LocalBackend(site.owner, site.folder / "local", site.supervisor, options)


def _ssh(site: Site) -> Backend:
    from executor_service.backends.ssh.backend import SshBackend
    from executor_service.backends.ssh.connection import SshOptions

    ssh = site.config.ssh
    options = SshOptions(
        ssh.host, ssh.port, ssh.user, ssh.key, ssh.known_hosts, ssh.fingerprint, ssh.folder
    )
    return SshBackend(site.owner, site.supervisor, options)


def _singularity(site: Site) -> Backend:
    from executor_service.backends.singularity.backend import SingularityBackend, SingularityOptions

    singularity = site.config.singularity
    options = SingularityOptions(singularity.image, singularity.program)
    folder = site.folder / "singularity"
    return SingularityBackend(site.owner, folder, site.supervisor, options)


BACKENDS: Mapping[str, Callable[[Site], Backend]] = {
    "docker": _docker,
    "bubblewrap": _bubblewrap,
    "singularity": _singularity,
    "modal": _modal,
    "kubernetes": _kubernetes,
    "ssh": _ssh,
    "local": _local,
}
"""Every backend by its name."""

AUTOMATIC = ("docker", "bubblewrap")
"""Where none is configured, the first of these that can be used is; the others are taken only by
their name."""
