"""Workspaces that are folders of one PersistentVolumeClaim, managed from a pod of their own.

The pod is hardened as a box is and mounts the whole claim. It is not listed as a box, and the
cluster ends it if the executor dies.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from executor_service.backends.base import BOX, MIB, BoxSpec, Limits
from executor_service.backends.bridge import read_all
from executor_service.backends.folder_store import FolderStore
from executor_service.backends.kubernetes.api import Cluster, Json
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    SELECTED,
    SUPERVISOR,
    manifest,
    selecting,
)
from executor_service.backends.kubernetes.pods import Pods, ensure_objects
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendError, BackendUnavailable, EngineRefused, WorkspaceInUse
from services.lifecycle import unbroken

_LIMITS = Limits(memory_bytes=256 * MIB, tmp_bytes=16 * MIB)


def claim_store(
    cluster: Cluster, options: KubernetesConfig, owner: str, supervisor: bytes
) -> FolderStore:
    """The workspaces of a claim."""
    pods = Pods(cluster, options.namespace)

    async def run(wanted: dict[str, Any]) -> bytes:
        request = json.dumps({**wanted, "root": "/workspace"})
        try:
            if wanted["do"] == "remove" and await _is_used(pods, wanted["name"]):
                raise WorkspaceInUse("the workspace cannot be removed: a pod has it")
            objects = await ensure_objects(cluster, options, supervisor)
            pod = _pod(manifest(_spec(owner), options, objects), wanted)
            async with _running(pods, pod, options.start_timeout_s) as name:
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
    for mount in pod["spec"]["containers"][0]["volumeMounts"]:
        mount.pop("subPath", None)
    pod["metadata"]["annotations"] = {}
    del pod["metadata"]["labels"][BOX]
    pod["spec"]["activeDeadlineSeconds"] = 2 * int(wanted["within_s"]) + 600
    return pod


@asynccontextmanager
async def _running(pods: Pods, wanted: Json, timeout_s: float) -> AsyncGenerator[str]:
    """Run a pod for the time of the block; yields its name."""
    name = wanted["metadata"]["name"]
    try:
        await pods.create(wanted)
        await pods.until_running(name, timeout_s)
        yield name
    finally:
        # Also a pod made without an answer, which nobody would find among the boxes.
        await unbroken(_remove(pods, name))


async def _remove(pods: Pods, name: str) -> None:
    if pod := await pods.find(name):
        await pods.remove(pod)
