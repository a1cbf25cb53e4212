"""Boxes that are pods of a Kubernetes cluster, one each, in a namespace of their own.

The supervisor is the container's first process. The executor reaches it through a bridge: a
command that the cluster runs in the pod and whose streams it hands on over a WebSocket.
"""

import asyncio
import secrets
from http import HTTPStatus

from executor_service.backends import kubernetes_probe
from executor_service.backends.base import Box, BoxSpec, ByteStream, Capabilities
from executor_service.backends.greeting import expect_greeting
from executor_service.backends.kubernetes_api import CALL_DEADLINE_S, Cluster
from executor_service.backends.kubernetes_json import Json
from executor_service.backends.kubernetes_objects import (
    ensure_objects,
    keep_secret,
    kept_secrets,
)
from executor_service.backends.kubernetes_pod import (
    CONTAINER,
    OWNER,
    SELECTED,
    SOCKET,
    SUPERVISOR,
    KubernetesOptions,
    box_of,
    is_box_of,
    label,
    manifest,
    pod_name,
)
from executor_service.backends.kubernetes_pods import Pods
from executor_service.backends.kubernetes_status import (
    is_out_of_memory,
    is_running,
    why_gone,
    why_hopeless,
    why_waiting,
)
from executor_service.backends.kubernetes_watch import PodWatch
from executor_service.backends.making import made
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    BoxCreateFailed,
    BoxLost,
    BoxOutOfMemory,
    EngineRefused,
    LinkClosed,
)
from services.lifecycle import unbroken

_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 0.5


class KubernetesBackend:
    """Makes boxes in a Kubernetes cluster, one pod each."""

    def __init__(self, owner: str, supervisor: bytes, options: KubernetesOptions) -> None:
        self._owner = owner
        self._supervisor = supervisor
        self._options = options
        self._namespace = options.namespace
        self._cluster = Cluster(options.address)
        self._pods = Pods(self._cluster, options.namespace)
        wanted = {**SELECTED, OWNER: label(owner)}
        self._selector = ",".join(f"{name}={value}" for name, value in wanted.items())
        self._watch = PodWatch(self._cluster, options.namespace, self._selector)

    async def probe(self) -> Capabilities:
        """What the cluster allows here, and what it is said to enforce."""
        return await kubernetes_probe.probe(self._cluster, self._options, self._owner)

    async def create(self, spec: BoxSpec) -> Box:
        """Make a pod and wait until its supervisor answers."""
        box = await made(self._make(spec), self.destroy)
        try:
            await self._until_ready(box)
        except BaseException:
            await unbroken(self.destroy(box))
            raise
        return box

    async def _make(self, spec: BoxSpec) -> Box:
        secret = secrets.token_hex(32)
        try:
            objects = await ensure_objects(self._cluster, self._options, self._supervisor)
            wanted = manifest(spec, self._options, objects, secret)
            pod = await self._pods.create(wanted)
            try:
                await keep_secret(self._cluster, pod, secret)
            except BackendError:
                await self._pods.remove(pod)
                raise
        except EngineRefused as error:
            raise _create_failed(error) from error
        return box_of(pod, secret)

    async def _until_ready(self, box: Box) -> None:
        """Wait until the bridge into the box can be used."""
        pause_s = _FIRST_POLL_S
        pod: Json = {}
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                while not is_running(pod):
                    await asyncio.sleep(pause_s)
                    pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
                    pod = await self._pods.find(pod_name(box.key)) or _vanished(box)
                    if why := why_hopeless(pod):
                        raise BoxCreateFailed(f"the pod of box {box.key} cannot run: {why}")
                stream = await self.connect(box)
                await stream.close()
        except TimeoutError as error:
            raise BoxCreateFailed(
                f"the pod of box {box.key} does not run after {self._options.start_timeout_s:g} s: "
                f"{why_waiting(pod) if pod else 'the cluster does not answer'}"
            ) from error
        except (BoxLost, LinkClosed) as error:
            raise BoxCreateFailed(f"the supervisor does not answer: {error}") from error

    async def connect(self, box: Box) -> ByteStream:
        """Run a bridge in the pod and take its streams over, until the pod is lost."""
        # First, as it may be lost while it is looked at.
        self._watch.guard(box.native_id)
        pod = await self._pods.find(pod_name(box.key))
        if pod is None or not is_box_of(pod, self._owner):
            raise BoxLost(f"box {box.key} is gone: it has no pod")
        if why := why_gone(pod, box.native_id):
            lost = BoxOutOfMemory if is_out_of_memory(pod) else BoxLost
            raise lost(f"box {box.key} is gone: {why}")
        command = (*SUPERVISOR, "--bridge", SOCKET)
        try:
            stream = await self._cluster.exec(
                self._namespace, pod_name(box.key), CONTAINER, command
            )
        except EngineRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise BoxLost(f"box {box.key} is gone: {error}") from error
            raise LinkClosed(f"no bridge into box {box.key}: {error}") from error
        try:
            await expect_greeting(stream, CALL_DEADLINE_S)
        except LinkClosed as error:
            await stream.close()
            raise LinkClosed(f"{error} {stream.complaint}".strip()) from error
        except BaseException:
            await stream.close()
            raise
        self._watch.hold(box.native_id, stream)
        return stream

    async def destroy(self, box: Box) -> None:
        """Have the node end the pod, then make sure that it is gone."""
        self._watch.forget(box.native_id)
        pod = await self._pods.find(pod_name(box.key))
        if pod is not None and is_box_of(pod, self._owner):
            await self._pods.remove(pod)

    async def list_boxes(self) -> list[Box]:
        """All pods of this owner that nobody is ending, those that have ended included.

        Nobody but the executor removes those.
        """
        try:
            # Pods first: the secret of a pod comes after it.
            pods = (await self._pods.list(self._selector))["items"]
            known = await kept_secrets(self._cluster, self._namespace, self._selector)
        except EngineRefused as error:
            raise BackendUnavailable(f"the cluster refuses to list boxes: {error}") from error
        return [
            box_of(pod, known.get(pod["metadata"]["uid"], ""))
            for pod in pods
            if is_box_of(pod, self._owner) and not pod["metadata"].get("deletionTimestamp")
        ]

    async def close(self) -> None:
        """Let go of the cluster's client; the boxes live on."""
        await self._watch.close()
        await self._cluster.close()


def _create_failed(error: EngineRefused) -> BackendError:
    if error.status == HTTPStatus.UNAUTHORIZED:
        return BackendUnavailable(f"the cluster does not know this executor: {error}")
    if error.status >= 500:
        return BackendUnavailable(f"the cluster cannot make boxes now: {error}")
    return BoxCreateFailed(f"the cluster refuses the box: {error}")


def _vanished(box: Box) -> Json:
    raise BoxCreateFailed(f"the pod of box {box.key} was removed before it ran")
