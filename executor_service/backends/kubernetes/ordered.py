"""Pods that are made for one box each."""

import logging
import time
from collections.abc import Iterable, Sequence

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.api import Cluster
from executor_service.backends.kubernetes.objects import ensure_objects, keep_secret, kept_secrets
from executor_service.backends.kubernetes.pod import (
    OWNER,
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
from executor_service.backends.kubernetes.reading import Json, part, parts
from executor_service.backends.kubernetes.status import is_running, why_hopeless, why_waiting
from executor_service.errors import BackendError, BoxCreateFailed

log = logging.getLogger(__name__)
_UNBEGUN_FACTOR = 6
"""A pod may wait for its node for longer than what has ended may be left."""


class OrderedPods:
    """The source of pods where nothing else makes any; see `Source`."""

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


class Abandoned:
    """Tells them by having seen each of them in the same state for long enough.

    So no clock of the cluster has to agree with this machine's.
    """

    def __init__(self, owner: str, options: KubernetesOptions) -> None:
        self._owner = owner
        self._release = options.release
        self._patience_s = {
            "Succeeded": options.abandoned_after_s,
            "Failed": options.abandoned_after_s,
            "Pending": _UNBEGUN_FACTOR * options.abandoned_after_s,
        }
        self._since: dict[tuple[str, str], float] = {}

    def among(self, pods: Iterable[Json]) -> Sequence[Json]:
        """Those of all pods that there are now."""
        now = time.monotonic()
        idle = {_state(pod): pod for pod in pods if self._may_be(pod)}
        self._since = {state: self._since.get(state, now) for state in idle}
        return [
            pod
            for state, pod in idle.items()
            if now - self._since[state] > self._patience_s[state[1]]
        ]

    def _may_be(self, pod: Json) -> bool:
        owners = parts(pod, "metadata", "ownerReferences")
        return (
            any((each["kind"], each["name"]) == ("ConfigMap", self._release) for each in owners)
            and part(pod, "metadata", "annotations").get(OWNER) != self._owner
            and _state(pod)[1] in self._patience_s
            and not pod["metadata"].get("deletionTimestamp")
        )


def _state(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["uid"], part(pod, "status").get("phase") or "Pending"
