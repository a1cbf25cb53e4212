"""The pods of one namespace, and what they refer to.

`ensure_objects` makes the owner of all pods and the ConfigMap with the supervisor. `Pods` makes,
finds and ends pods.
"""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from hashlib import sha256
from http import HTTPStatus

from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, Cluster, Json
from executor_service.backends.kubernetes.pod import GRACE_S, PROGRAM, SELECTED, Objects
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendUnavailable, EngineRefused


async def ensure_objects(cluster: Cluster, options: KubernetesConfig, supervisor: bytes) -> Objects:
    """Return the owner of all boxes and the supervisor's ConfigMap, made if missing."""
    owner = await _ensure(cluster, options.namespace, {"metadata": {"name": options.release}})
    reference = _reference(owner)
    name = f"{options.release}-supervisor-{sha256(supervisor).hexdigest()[:16]}"
    content = {
        "metadata": {"name": name, "ownerReferences": [reference]},
        "binaryData": {PROGRAM: base64.b64encode(supervisor).decode()},
        "immutable": True,
    }
    await _ensure(cluster, options.namespace, content)
    return Objects(reference, name)


async def _ensure(cluster: Cluster, namespace: str, config_map: Json) -> Json:
    metadata: Json = config_map["metadata"]
    name = metadata["name"]
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        **config_map,
        "metadata": {**metadata, "labels": dict(SELECTED)},
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        return await cluster.call("GET", f"{path}/{name}")
    except EngineRefused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    try:
        return await cluster.call("POST", path, wanted)
    except EngineRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
    # Another executor was faster.
    return await cluster.call("GET", f"{path}/{name}")


def _reference(thing: Json) -> Json:
    metadata: Json = thing["metadata"]
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 0.5
_PATIENCE_S = 15.0
"""How long a node may take to end a pod before its object is removed without it."""


class Pods:
    """The pods of a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    async def create(self, wanted: Json) -> Json:
        """Make a pod; one that is made without an answer is found later as a stray."""
        return await self._cluster.call("POST", self._path, wanted)

    async def list(self, selector: str) -> Json:
        """Return all pods with these labels, and the list's version."""
        return await self._cluster.call("GET", self._path, labelSelector=selector)

    def changes(self, selector: str, version: str) -> AsyncGenerator[Json]:
        """Yield what happens to pods with these labels after a list's version, for some minutes."""
        return self._cluster.watch(self._path, labelSelector=selector, resourceVersion=version)

    async def remove(self, pod: Json) -> None:
        """End a pod; only if its node does not respond, remove its object alone.

        A grace period of 0 would remove the object at once, while its processes run on.
        """
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        started = time.monotonic()
        asked_s = None
        pause_s = _FIRST_POLL_S
        while True:
            waited_s = time.monotonic() - started
            grace_s = GRACE_S if waited_s < _PATIENCE_S else 0
            if asked_s != grace_s:
                asked_s = grace_s
                await self._delete(name, grace_s, uid)
            there = await self.find(name)
            if there is None or there["metadata"]["uid"] != uid:
                return
            if waited_s > CALL_DEADLINE_S:
                raise BackendUnavailable(f"the pod {name} is not removed")
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)

    async def _delete(self, name: str, grace_s: int, uid: str) -> None:
        options = {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}}
        try:
            await self._cluster.call("DELETE", f"{self._path}/{name}", options)
        except EngineRefused as error:
            # It ended by itself, or another pod has its name.
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                raise

    async def find(self, name: str) -> Json | None:
        try:
            return await self._cluster.call("GET", f"{self._path}/{name}")
        except EngineRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise BackendUnavailable(f"the cluster refuses to show pods: {error}") from error
