"""The stand-in cluster of tests, set up as the documentation says."""

import asyncio
import base64
import re
import secrets
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML

from executor_service.backends.base import Box, BoxSpec, Limits
from executor_service.backends.kubernetes.api import ClusterAddress
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import KubernetesOptions, Objects, manifest
from executor_service.backends.kubernetes.reading import Json
from executor_service.errors import BoxLost, LinkClosed
from executor_service.link import SupervisorLink
from executor_service.supervisor_zipapp import build_zipapp
from tests.docker_engine import docker_client
from tests.fakes.kubernetes.rights import Rights
from tests.fakes.kubernetes.running import StandIn, running
from tests.fakes.kubernetes.server import Cluster
from tests.markdown import ROOT

NAMESPACE = "hermes-sandboxes"
WARM_POOL = "hermes"
NOTHING = Objects({}, "")
PAGE = ROOT / "docs" / "backends" / "kubernetes.md"


def documented(*, with_claims: bool = False) -> dict[str, Json]:
    """The objects that the documentation has an administrator apply, by their kind."""
    text = PAGE.read_text("utf-8")
    first, second = re.findall(r"```yaml\n(apiVersion: .*?)```", text, re.DOTALL)
    block = f"{first}---\n{second}" if with_claims else first
    return {thing["kind"]: thing for thing in YAML(typ="safe", pure=True).load_all(block)}


@cache
def _supervisor() -> bytes:
    return build_zipapp()


def another_supervisor() -> dict[str, str]:
    """What a ConfigMap has of a version that is not ours, and runs."""
    content = b"#!/usr/bin/env python3\n" + _supervisor()
    return {"supervisor.pyz": base64.b64encode(content).decode()}


def template_of(pod_template: Json, limits: Limits) -> Json:
    """A pod's template in these sizes, and with the tests' image."""
    ours = manifest(BoxSpec("x", "x", "x", Path("/x"), limits), KubernetesOptions(), NOTHING, "")
    spec = deepcopy(pod_template["spec"])
    (container,) = spec["containers"]
    (wanted,) = ours["spec"]["containers"]
    container.update(image=wanted["image"], resources={"limits": wanted["resources"]["limits"]})
    volumes = {each["name"]: each for each in ours["spec"]["volumes"]}
    spec["volumes"] = [
        volumes[each["name"]] if "emptyDir" in each else each for each in spec["volumes"]
    ]
    return {**pod_template, "spec": spec}


@contextmanager
def cluster(
    folder: Path,
    claims_of: Limits | None = None,
    ready: int = 2,
    applied: Mapping[str, Json] | None = None,
) -> Generator[StandIn]:
    """A cluster with what is documented, or applied, for the time of the block.

    With limits, it keeps pods of this size ready to be claimed.
    """
    docker_client().close()
    # Here and not where a loop must not wait for files.
    _supervisor()
    things = applied or documented(with_claims=claims_of is not None)
    rights = Rights(NAMESPACE, things["Role"]["rules"], secrets.token_hex(16))
    made = Cluster(rights, folder)
    policy = made.store.complete("networkpolicies", things["NetworkPolicy"])
    made.store.add("networkpolicies", policy)
    if claims_of is not None:
        template, pool = things["SandboxTemplate"], things["SandboxWarmPool"]
        template["spec"]["podTemplate"] = template_of(template["spec"]["podTemplate"], claims_of)
        pool["spec"]["replicas"] = ready
        for resource, thing in (("sandboxtemplates", template), ("sandboxwarmpools", pool)):
            made.store.add(resource, made.store.complete(resource, thing))
    with running(made) as stand_in:
        yield stand_in


def options_of(stand_in: StandIn, **chosen: object) -> KubernetesOptions:
    """What an operator would choose for it."""
    known: dict[str, object] = {
        "address": ClusterAddress(str(stand_in.kubeconfig)),
        "node_limits_pids": True,
        "start_timeout_s": 30.0,
    }
    return KubernetesOptions(**{**known, **chosen})  # pyright: ignore[reportArgumentType]


def backend_of(stand_in: StandIn, owner: str, **chosen: object) -> KubernetesBackend:
    """A backend of the cluster."""
    return KubernetesBackend(owner, _supervisor(), options_of(stand_in, **chosen))


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
