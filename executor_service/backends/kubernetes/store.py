"""Workspaces that are folders of one PersistentVolumeClaim, managed from a pod of their own.

The pod is hardened as a box is and mounts the whole claim. It is not listed as a box. If the
executor dies, the work in the pod ends with its stream, and the pod soon after; a later look at
the boxes removes what is left of it.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from executor_service.backends.base import BOX, MIB, BoxSpec, Limits
from executor_service.backends.bridge import PYTHON, read_all
from executor_service.backends.folder_store import FolderStore
from executor_service.backends.kubernetes.api import Cluster, Json, part
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    SELECTED,
    SUPERVISOR,
    manifest,
    selecting,
)
from executor_service.backends.kubernetes.pods import Pods, ensure_objects
from executor_service.backends.kubernetes.watch import PodWatch
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused, WorkspaceInUse
from services.lifecycle import unbroken

_LIMITS = Limits(memory_bytes=256 * MIB, tmp_bytes=16 * MIB, cpu_count=0.5)
_REQUESTS = {"cpu": "25m", "memory": str(64 * MIB)}
_IDLE_S = 15
_WAIT_FOR_WORK = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
used_at = time.monotonic()
while time.monotonic() - used_at < {_IDLE_S}:
    time.sleep(1)
    if sum(name.isdigit() for name in os.listdir("/proc")) > 1:
        used_at = time.monotonic()
"""
"""The pod's first process ends it when nothing else has run in it for a while."""


def claim_store(
    cluster: Cluster, watch: PodWatch, options: KubernetesConfig, owner: str, supervisor: bytes
) -> FolderStore:
    """The workspaces of a claim."""
    pods = Pods(cluster, options.namespace)

    async def run(wanted: dict[str, Any]) -> bytes:
        request = json.dumps({**wanted, "root": "/workspace", "attended": True})
        try:
            if wanted["do"] == "remove" and await _is_used(pods, wanted["name"]):
                raise WorkspaceInUse("the workspace cannot be removed: a pod has it")
            objects = await ensure_objects(cluster, options, supervisor)
            pod = _pod(manifest(_spec(owner), options, objects), wanted)
            async with _running(pods, watch, pod, options) as name:
                command = (*SUPERVISOR, "--folders", request)
                async with asyncio.timeout(wanted["within_s"]):
                    stream = await cluster.exec(options.namespace, name, CONTAINER, command)
                    try:
                        return await read_all(stream)
                    finally:
                        await stream.close()
        except EngineRefused as error:
            raise BackendUnavailable(
                f"the cluster refuses to work on workspaces: {error}"
            ) from error
        except TimeoutError as error:
            raise BackendError(f"not done within {wanted['within_s']:g} s") from error

    place = f"kubernetes {options.namespace}/{options.workspace_claim}"
    return FolderStore(place, run)


async def _is_used(pods: Pods, workspace: str) -> bool:
    """Whether any executor's box uses a folder of the claim."""
    found = await pods.list(selecting(SELECTED))
    return any(
        mount.get("subPath") == workspace
        for pod in found["items"]
        for container in pod["spec"]["containers"]
        for mount in container.get("volumeMounts", ())
    )


def _spec(owner: str) -> BoxSpec:
    return BoxSpec(f"store_{secrets.token_hex(8)}", owner, "store", Path("/"), _LIMITS)


def _pod(pod: Json, wanted: dict[str, Any]) -> Json:
    """A box's pod with the whole claim, which does not count as a box."""
    container = pod["spec"]["containers"][0]
    for mount in container["volumeMounts"]:
        mount.pop("subPath", None)
    container["command"] = [*PYTHON, "-c", _WAIT_FOR_WORK]
    container["resources"]["requests"] |= _REQUESTS
    pod["metadata"]["annotations"] = {}
    del pod["metadata"]["labels"][BOX]
    pod["spec"]["activeDeadlineSeconds"] = 2 * int(wanted["within_s"]) + 600
    return pod


@asynccontextmanager
async def _running(
    pods: Pods, watch: PodWatch, wanted: Json, options: KubernetesConfig
) -> AsyncGenerator[str]:
    name = wanted["metadata"]["name"]
    try:
        await pods.create(wanted)
        await watch.until_running(name, options)
        yield name
    finally:
        # Also a pod made without an answer, which nobody would find among the boxes.
        await unbroken(_remove(pods, name))


async def remove_ended_stores(pods: Pods, listed: Iterable[Json]) -> None:
    """Remove pods of this kind that have ended without their executor."""
    for pod in listed:
        is_over = part(pod, "status").get("phase") in {"Failed", "Succeeded"}
        if is_over and BOX not in pod["metadata"]["labels"]:
            await pods.remove(pod)


async def _remove(pods: Pods, name: str) -> None:
    if pod := await pods.find(name):
        await pods.remove(pod)
