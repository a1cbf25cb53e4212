"""What each backend stands on in tests: a server that is started, and settings that name it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tests import apptainer
from tests.e2e.deployment import beside
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.modal.service import ModalService, modal_service
from tests.support.docker_engine import OwnEngine, own_engine
from tests.support.kubernetes_cluster import cluster
from tests.support.requirements import require
from tests.support.ssh_server import SshServer, ssh_server

Server: TypeAlias = ModalService | OwnEngine | SshServer | StandIn


@dataclass(frozen=True, slots=True)
class Ground:
    """A machine, engine, cluster or cloud, and by which variables an executor finds it."""

    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    server: Server | None = None
    """None where the backend needs nothing but this machine."""


OWN_ENGINE = "docker engine restarted"


@asynccontextmanager
async def ground(name: str, folder: Path) -> AsyncGenerator[Ground]:
    """What a backend stands on, for the time of the block; skipped where it cannot be had."""
    match name:
        case "ssh":
            async with beside(ssh_server()) as server:
                yield Ground(server.environ, server)
        case "kubernetes":
            async with beside(cluster(folder / "cluster")) as stand_in:
                environ = {"HERMES_KUBERNETES_KUBECONFIG": str(stand_in.kubeconfig)}
                yield Ground(environ, stand_in)
        case "modal":
            async with modal_service(folder / "cloud") as service:
                require("modal", not service.obstacle, service.obstacle)
                yield Ground(service.environ, service)
        case "gvisor":
            yield Ground({"HERMES_DOCKER_RUNTIME": "runsc"})
        case "singularity":
            options = apptainer.options()
            named = {"IMAGE": options.image, "PROGRAM": options.program}
            yield Ground({f"HERMES_SINGULARITY_{name}": value for name, value in named.items()})
        case _ if name == OWN_ENGINE:
            async with beside(own_engine()) as engine:
                yield Ground({"DOCKER_HOST": engine.host}, engine)
        case _:
            yield Ground()
