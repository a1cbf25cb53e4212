"""Making, finding and ending pods of one namespace."""

import asyncio
import time
from http import HTTPStatus

from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, Cluster, Json
from executor_service.backends.kubernetes.pod import GRACE_S
from executor_service.backends.kubernetes.status import is_running, why_hopeless, why_waiting
from executor_service.errors import BackendUnavailable, BoxCreateFailed, EngineRefused

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
        """Make a pod; one that is made without an answer is found again as a stray."""
        return await self._cluster.call("POST", self._path, wanted)

    async def until_running(self, name: str, timeout_s: float) -> None:
        """Wait until a pod's supervisor has been started; BoxCreateFailed when that never is."""
        why, pause_s = "the cluster does not answer", _FIRST_POLL_S
        try:
            async with asyncio.timeout(timeout_s):
                while why:
                    await asyncio.sleep(pause_s)
                    pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
                    why = _why_not_running(name, await self.find(name))
        except TimeoutError as error:
            raise BoxCreateFailed(
                f"the pod {name} does not run after {timeout_s:g} s: {why}"
            ) from error

    async def list(self, selector: str) -> Json:
        """All pods that have these labels, and of what version this list is."""
        return await self._cluster.call("GET", self._path, labelSelector=selector)

    async def remove(self, pod: Json) -> None:
        """End a pod; without its node's word only when that does not come.

        A grace period of nothing would remove the object at once, with its processes running on.
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
            # It went by itself, or another has its name.
            if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                raise

    async def find(self, name: str) -> Json | None:
        """The pod of that name, if there is one."""
        try:
            return await self._cluster.call("GET", f"{self._path}/{name}")
        except EngineRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise BackendUnavailable(f"the cluster refuses to show pods: {error}") from error


def _why_not_running(name: str, pod: Json | None) -> str:
    """What a pod waits for; empty once it runs, BoxCreateFailed when it never will."""
    if pod is None:
        raise BoxCreateFailed(f"the pod {name} was removed before it ran")
    if why := why_hopeless(pod):
        raise BoxCreateFailed(f"the pod {name} cannot run: {why}")
    return "" if is_running(pod) else why_waiting(pod)
