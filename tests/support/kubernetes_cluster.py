"""The stand-in cluster of tests, set up as the documentation says."""

import asyncio
import re
import secrets
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from executor_service.backends.base import Box
from executor_service.backends.kubernetes.api import Json
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.supervisor_zipapp import build_zipapp
from executor_service.config import KubernetesConfig
from executor_service.errors import BoxLost, LinkClosed
from executor_service.link.link import SupervisorLink
from tests.fakes.kubernetes.rights import Rights
from tests.fakes.kubernetes.running import StandIn, running
from tests.fakes.kubernetes.server import Cluster
from tests.support.docker_engine import docker_client
from tests.support.markdown import ROOT

NAMESPACE = "hermes-sandboxes"
PAGE = ROOT / "docs/operators/backends/kubernetes.md"


def documented() -> dict[str, Json]:
    """The objects that the documentation has an administrator apply, by their kind."""
    text = PAGE.read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(apiVersion: .*?)```", text, re.DOTALL)
    return {thing["kind"]: thing for thing in YAML(typ="safe", pure=True).load_all(block)}


@cache
def _supervisor() -> bytes:
    return build_zipapp()


@contextmanager
def cluster(folder: Path, applied: Mapping[str, Json] | None = None) -> Generator[StandIn]:
    """A cluster with what is documented, or applied, for the time of the block."""
    docker_client().close()
    # Here and not where a loop must not wait for files.
    _supervisor()
    things = applied or documented()
    rights = Rights(NAMESPACE, things["Role"]["rules"], secrets.token_hex(16))
    made = Cluster(rights, folder)
    policy = made.store.complete("networkpolicies", things["NetworkPolicy"])
    made.store.add("networkpolicies", policy)
    with running(made) as stand_in:
        yield stand_in


def options_of(stand_in: StandIn, **chosen: object) -> KubernetesConfig:
    """What an operator would choose for it."""
    known: dict[str, object] = {
        "kubeconfig": str(stand_in.kubeconfig),
        "node_limits_pids": True,
        "start_timeout_s": 30.0,
    }
    return KubernetesConfig(**{**known, **chosen})  # pyright: ignore[reportArgumentType]


def backend_of(stand_in: StandIn, owner: str, **chosen: Any) -> KubernetesBackend:
    """A backend of the cluster."""
    options = options_of(stand_in, **chosen)
    return KubernetesBackend(owner, _supervisor(), options)


async def until_lost(
    backend: KubernetesBackend, box: Box, link: SupervisorLink
) -> tuple[BoxLost, float]:
    """How connecting says that the box is lost once its link has ended, and how soon."""
    started = time.monotonic()
    async with asyncio.timeout(20):
        assert isinstance(await link.wait_ended(), LinkClosed)
        while True:
            try:
                await (await backend.connect(box)).close()
            except BoxLost as error:
                return error, time.monotonic() - started
            except LinkClosed:
                await asyncio.sleep(0.05)
