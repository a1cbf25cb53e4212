"""The pods of one namespace, and what they refer to.

`ensure_objects` makes the owner of all pods and the ConfigMap with the supervisor. `Pods` makes,
finds and ends pods. `PodWatch` looks for lost pods every two seconds: the end of a pod usually ends
its streams, but not if its node is gone or a proxy keeps a dead connection open.
"""

import asyncio
import base64
import logging
import time
from hashlib import sha256
from http import HTTPStatus

from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, Cluster, Json
from executor_service.backends.kubernetes.pod import GRACE_S, PROGRAM, SELECTED, Objects
from executor_service.backends.kubernetes.status import (
    is_running,
    why_gone,
    why_hopeless,
    why_unschedulable,
    why_waiting,
)
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, EngineRefused
from services.lifecycle import Workers

_MAX_CONFIG_MAP_BYTES = 1024 * 1024


async def ensure_objects(cluster: Cluster, options: KubernetesConfig, supervisor: bytes) -> Objects:
    """Return the owner of all boxes and the supervisor's ConfigMap, made if missing."""
    owner = await _ensure(cluster, options.namespace, {"metadata": {"name": options.release}})
    reference = _reference(owner)
    if len(supervisor) > _MAX_CONFIG_MAP_BYTES:
        raise BackendUnavailable("the supervisor is too large for a ConfigMap")
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

    async def until_running(self, name: str, timeout_s: float, schedule_timeout_s: float) -> None:
        """Wait until a pod's supervisor has been started; BoxCreateFailed if that is impossible."""
        why, pause_s = "the cluster does not answer", _FIRST_POLL_S
        unscheduled_until = time.monotonic() + schedule_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while why:
                    await asyncio.sleep(pause_s)
                    pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
                    pod = await self.find(name)
                    why = _why_not_running(name, pod)
                    if time.monotonic() > unscheduled_until and (
                        no_room := why_unschedulable(pod or {})
                    ):
                        raise BoxCreateFailed(
                            f"no node takes the sandbox after {schedule_timeout_s:g} s "
                            f"(executor.kubernetes.schedule_timeout_s): {no_room}"
                        )
        except TimeoutError as error:
            raise BoxCreateFailed(
                f"the pod {name} does not run after {timeout_s:g} s: {why}"
            ) from error

    async def list(self, selector: str) -> Json:
        """Return all pods with these labels, and the list's version."""
        return await self._cluster.call("GET", self._path, labelSelector=selector)

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


def _why_not_running(name: str, pod: Json | None) -> str:
    """The reason why a pod waits; empty once it runs, BoxCreateFailed if it never will."""
    if pod is None:
        raise BoxCreateFailed(f"the pod {name} was removed before it ran")
    if why := why_hopeless(pod):
        raise BoxCreateFailed(f"the pod {name} cannot run: {why}")
    return "" if is_running(pod) else why_waiting(pod)


_PAUSE_S = 2.0

log = logging.getLogger(__name__)


class PodWatch:
    """Cuts the streams into lost pods; runs while there are pods to watch."""

    def __init__(self, pods: Pods, selector: str) -> None:
        self._pods = pods
        self._selector = selector
        self._streams: dict[str, set[ExecStream]] = {}
        self._complaint = ""
        self._workers = Workers()

    def guard(self, uid: str) -> None:
        """Watch a pod until it is forgotten."""
        self._streams.setdefault(uid, set())
        if not self._workers:
            self._workers.start("watch of pods", self._run())

    def hold(self, uid: str, stream: ExecStream) -> None:
        """Cut this stream, too, when the pod is lost, which it may be already."""
        if uid in self._streams:
            self._streams[uid] = {one for one in self._streams[uid] if not one.is_over} | {stream}
        else:
            stream.cut()

    def forget(self, uid: str) -> None:
        self._streams.pop(uid, None)

    async def close(self) -> None:
        async with self._workers:
            self._streams.clear()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            try:
                await self._look()
            except BackendError as error:
                if str(error) != self._complaint:
                    log.warning("what becomes of pods cannot be seen for a moment: %s", error)
                self._complaint = str(error)
            else:
                self._complaint = ""

    async def _look(self) -> None:
        """Compare with the existing pods."""
        missing = set(self._streams)
        if not missing:
            return
        for pod in (await self._pods.list(self._selector))["items"]:
            uid = pod["metadata"]["uid"]
            if not why_gone(pod, uid):
                missing.discard(uid)
        for uid in missing:
            for stream in self._streams.pop(uid, ()):
                stream.cut()
