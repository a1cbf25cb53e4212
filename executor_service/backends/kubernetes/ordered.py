"""Pods that are made for one box each."""

import logging
from collections.abc import Sequence

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.abandoned import Abandoned
from executor_service.backends.kubernetes.api import Cluster
from executor_service.backends.kubernetes.objects import (
    ensure_objects,
    keep_secret,
    kept_secrets,
)
from executor_service.backends.kubernetes.pod import (
    SELECTED,
    KubernetesOptions,
    box_of,
    is_box_of,
    manifest,
    owned_by,
    pod_name,
    selecting,
)
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.reading import Json
from executor_service.backends.kubernetes.status import is_running, why_hopeless, why_waiting
from executor_service.errors import BackendError, BoxCreateFailed

log = logging.getLogger(__name__)


class OrderedPods:
    """The source of pods where nothing else makes any; see kubernetes_source."""

    def __init__(
        self, cluster: Cluster, options: KubernetesOptions, owner: str, supervisor: bytes
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._owner = owner
        self._supervisor = supervisor
        self._pods = Pods(cluster, options.namespace)
        self._abandoned = Abandoned(owner, options)

    @property
    def selector(self) -> str:
        """Only this owner's."""
        return owned_by(self._owner)

    async def order(self, spec: BoxSpec, secret: str) -> Box:
        """Make a pod, and note its secret."""
        objects = await ensure_objects(self._cluster, self._options, self._supervisor)
        pod = await self._pods.create(manifest(spec, self._options, objects, secret))
        try:
            await keep_secret(self._cluster, pod, secret)
        except BackendError:
            await self._pods.remove(pod)
            raise
        return box_of(pod, secret)

    async def ordered(self, box: Box, spec: BoxSpec) -> Box | str:
        """Look at the pod."""
        pod = await self._pods.find(pod_name(box.key))
        if pod is None:
            raise BoxCreateFailed(f"the pod of box {box.key} was removed before it ran")
        if why := why_hopeless(pod):
            raise BoxCreateFailed(f"the pod of box {box.key} cannot run: {why}")
        return box if is_running(pod) else why_waiting(pod)

    async def pod(self, box: Box) -> Json | None:
        """The pod that has the box's name, if it is this owner's."""
        pod = await self._pods.find(pod_name(box.key))
        return pod if pod is not None and is_box_of(pod, self._owner) else None

    async def end(self, box: Box) -> None:
        """Have the node end the pod, then make sure that it is gone."""
        pod = await self.pod(box)
        if pod is not None:
            await self._pods.remove(pod)

    async def boxes(self) -> Sequence[Box]:
        """Those that have ended included: nobody but the executor removes them.

        Pods that an executor of the same release has left for good go when they are seen.
        """
        # Pods first: the secret of a pod comes after it.
        pods = (await self._pods.list(selecting(SELECTED)))["items"]
        for pod in self._abandoned.among(pods):
            log.info("removing the pod %s, which its executor has left", pod["metadata"]["name"])
            await self._pods.discard(pod)
        mine = [
            pod
            for pod in pods
            if is_box_of(pod, self._owner) and not pod["metadata"].get("deletionTimestamp")
        ]
        known = await kept_secrets(self._cluster, mine)
        return [box_of(pod, known.get(pod["metadata"]["uid"], "")) for pod in mine]
