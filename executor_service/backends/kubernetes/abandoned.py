"""Pods that nobody comes back for: of an executor of the same release that is gone for good.

While an executor lives, its pods are its own: no other one takes or ends them. Once it is gone, the
supervisor in each of them ends after a while by itself, or the cluster ends the pod. What is left
then is an object that nobody removes, and a pod that never began is one from the start.
"""

import time
from collections.abc import Iterable, Sequence

from executor_service.backends.kubernetes.pod import OWNER, KubernetesOptions
from executor_service.backends.kubernetes.reading import Json, part, parts

_UNBEGUN_FACTOR = 6
"""A pod may wait for its node for longer than what has ended may be left."""


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
