"""Boxes that are pods of a Kubernetes cluster, one each, in a namespace of their own.

The supervisor is the container's first process. The executor reaches it through a bridge: a
command that the cluster runs in the pod and whose streams it passes on over a WebSocket.
"""

from http import HTTPStatus

from executor_service.backends.base import Box, BoxSpec, Capabilities, make_or_destroy
from executor_service.backends.bridge import BRIDGE, wait_greeting
from executor_service.backends.folder_store import FolderStore
from executor_service.backends.kubernetes import probe as kubernetes_probe
from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, Cluster, Json
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    SUPERVISOR,
    box_of,
    is_box_of,
    manifest,
    owned_by,
    pod_name,
)
from executor_service.backends.kubernetes.pods import Pods, ensure_objects
from executor_service.backends.kubernetes.store import claim_store, remove_ended_stores
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.backends.kubernetes.watch import (
    PodWatch,
    is_out_of_memory,
    is_over_its_size,
    why_gone,
)
from executor_service.config import KubernetesConfig
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    BoxCreateFailed,
    BoxLost,
    BoxOutOfMemory,
    BoxOutOfSpace,
    EngineRefused,
    LinkClosed,
)
from services.lifecycle import unbroken

_AILING = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers of an API server that starts or is busy, which say nothing about the pod."""


class KubernetesBackend:
    """Makes boxes in a Kubernetes cluster, one pod each."""

    def __init__(
        self,
        owner: str,
        supervisor: bytes,
        options: KubernetesConfig,
        lifetime_s: float = 48 * 3600.0,
    ) -> None:
        """The cluster ends pods after their lifetime."""
        self._owner = owner
        self._supervisor = supervisor
        self._options = options
        self._lifetime_s = lifetime_s
        self._cluster = Cluster(options)
        self._pods = Pods(self._cluster, options.namespace)
        self._watch = PodWatch(self._pods, owned_by(owner))
        self._store = claim_store(self._cluster, self._watch, options, owner, supervisor)

    async def probe(self) -> Capabilities:
        return await kubernetes_probe.probe(self._cluster, self._options, self._owner)

    async def create(self, spec: BoxSpec) -> Box:
        box = await make_or_destroy(self._order(spec), self.destroy)
        try:
            await self._watch.until_running(pod_name(box.key), self._options)
        except BaseException as error:
            await unbroken(self.destroy(box))
            if isinstance(error, EngineRefused):
                raise _create_failed(error) from error
            raise
        return box

    async def _order(self, spec: BoxSpec) -> Box:
        try:
            objects = await ensure_objects(self._cluster, self._options, self._supervisor)
            wanted = manifest(spec, self._options, objects, self._lifetime_s)
            return box_of(await self._pods.create(wanted))
        except EngineRefused as error:
            raise _create_failed(error) from error

    async def _find(self, box: Box) -> Json | None:
        pod = await self._pods.find(pod_name(box.key))
        return pod if pod is not None and is_box_of(pod, self._owner) else None

    async def connect(self, box: Box) -> ExecStream:
        """Run a bridge in the pod and use its streams, until the pod is lost."""
        # First, because the pod may be lost during the check.
        self._watch.guard(box.native_id)
        pod = await self._find(box)
        if pod is None:
            raise BoxLost(f"box {box.key} is gone: it has no pod")
        if why := why_gone(pod, box.native_id):
            raise _lost(pod)(f"box {box.key} is gone: {why}")
        stream = await self._bridge(box, pod["metadata"]["name"])
        self._watch.hold(box.native_id, stream)
        return stream

    async def _bridge(self, box: Box, pod: str) -> ExecStream:
        try:
            stream = await self._cluster.exec(
                self._options.namespace, pod, CONTAINER, (*SUPERVISOR, *BRIDGE)
            )
        except EngineRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise BoxLost(f"box {box.key} is gone: {error}") from error
            if error.status in _AILING or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise BackendUnavailable(f"box {box.key} cannot be reached: {error}") from error
            raise LinkClosed(f"no bridge into box {box.key}: {error}") from error
        return await wait_greeting(stream, CALL_DEADLINE_S, stream.complaint)

    async def destroy(self, box: Box) -> None:
        """Have the node end the pod, then make sure that it is gone."""
        self._watch.forget(box.native_id)
        pod = await self._find(box)
        if pod is not None:
            await self._pods.remove(pod)

    async def list_boxes(self) -> list[Box]:
        """The owner's pods that nobody is ending, including those that have ended."""
        try:
            pods = (await self._pods.list(owned_by(self._owner)))["items"]
            await remove_ended_stores(self._pods, pods)
        except EngineRefused as error:
            raise BackendUnavailable(f"the cluster refuses to list boxes: {error}") from error
        return [
            box_of(pod)
            for pod in pods
            if is_box_of(pod, self._owner) and not pod["metadata"].get("deletionTimestamp")
        ]

    @property
    def boxes_outlive_outages(self) -> bool:
        return True

    @property
    def workspace_store(self) -> FolderStore | None:
        return self._store if self._options.workspace_claim else None

    async def close(self) -> None:
        await self._watch.close()
        await self._cluster.close()


def _lost(pod: Json) -> type[BoxLost]:
    if is_out_of_memory(pod):
        return BoxOutOfMemory
    return BoxOutOfSpace if is_over_its_size(pod) else BoxLost


def _create_failed(error: EngineRefused) -> BackendError:
    if error.status == HTTPStatus.UNAUTHORIZED:
        return BackendUnavailable(f"the cluster does not know this executor: {error}")
    if error.status >= 500:
        return BackendUnavailable(f"the cluster cannot make boxes now: {error}")
    return BoxCreateFailed(f"the cluster refuses the box: {error}")
