"""Learning at once that a pod is lost: one watch for all boxes of a backend.

The end of a pod also ends the streams into it, as a rule: not where its node has gone, or where
something between the pod and here keeps a dead connection open.
"""

import asyncio
import contextlib
import logging
from http import HTTPStatus

from msgspec import Struct, field

from executor_service.backends.kubernetes.api import Cluster
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.reading import Json, part
from executor_service.backends.kubernetes.status import why_gone
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.errors import BackendError, EngineRefused
from services.lifecycle import Workers

_LASTS_S = 60
"""Of one request: a connection that died unnoticed is missed no longer than this."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 1.0

log = logging.getLogger(__name__)


class _Guarded(Struct):
    """A pod that is a box of ours."""

    streams: set[ExecStream] = field(default_factory=set[ExecStream])
    is_lost: bool = False


class PodWatch:
    """Cuts the streams into pods that are lost; runs once there is a pod to look after."""

    def __init__(self, cluster: Cluster, namespace: str, selector: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._selector = selector
        self._pods = Pods(cluster, namespace)
        self._guarded: dict[str, _Guarded] = {}
        self._version = ""
        """Up to which is known what happened; empty if nothing is."""
        self._pause_s = _FIRST_PAUSE_S
        self._complaint = ""
        self._workers = Workers()

    def guard(self, uid: str) -> None:
        """Look after a pod from now on, until it is forgotten."""
        self._guarded.setdefault(uid, _Guarded())
        if not self._workers:
            self._workers.start("watch of pods", self._run())

    def hold(self, uid: str, stream: ExecStream) -> None:
        """Cut this stream, too, when the pod is lost, which it may be already."""
        pod = self._guarded.get(uid)
        if pod is None or pod.is_lost:
            stream.cut()
        else:
            pod.streams = {one for one in pod.streams if not one.is_over} | {stream}

    def forget(self, uid: str) -> None:
        """Look after a pod no more."""
        self._guarded.pop(uid, None)

    async def close(self) -> None:
        """Look after none."""
        async with self._workers:
            self._guarded.clear()

    # ---- watching

    async def _run(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._look()
                await self._follow()
            except BackendError as error:
                if isinstance(error, EngineRefused) and error.status == HTTPStatus.GONE:
                    # What has happened since then is not kept any more.
                    self._version = ""
                await self._rest(str(error))

    async def _rest(self, complaint: str) -> None:
        if complaint != self._complaint:
            self._complaint = complaint
            log.warning("what becomes of pods cannot be watched for a moment: %s", complaint)
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    async def _look(self) -> None:
        """Compare with what there is now."""
        guarded = set(self._guarded)
        found = await self._pods.list(self._selector)
        there = {pod["metadata"]["uid"] for pod in found["items"]}
        for pod in found["items"]:
            self._judge(pod)
        for uid in guarded - there:
            self._lose(uid)
        self._version = found["metadata"]["resourceVersion"]

    async def _follow(self) -> None:
        """Take each event until the server ends the request."""
        events = self._cluster.watch_pods(self._namespace, self._selector, self._version, _LASTS_S)
        async with contextlib.aclosing(events):
            async for event in events:
                thing: Json = event["object"]
                if event["type"] == "ERROR":
                    code = int(thing.get("code") or HTTPStatus.INTERNAL_SERVER_ERROR)
                    raise EngineRefused(code, str(thing.get("message")))
                self._version = part(thing, "metadata").get("resourceVersion") or self._version
                self._pause_s, self._complaint = _FIRST_PAUSE_S, ""
                if event["type"] == "DELETED":
                    self._lose(thing["metadata"]["uid"])
                elif event["type"] in {"ADDED", "MODIFIED"}:
                    self._judge(thing)

    def _judge(self, pod: Json) -> None:
        if why_gone(pod, pod["metadata"]["uid"]):
            self._lose(pod["metadata"]["uid"])

    def _lose(self, uid: str) -> None:
        pod = self._guarded.get(uid)
        if pod is not None and not pod.is_lost:
            pod.is_lost = True
            for stream in pod.streams:
                stream.cut()
            pod.streams.clear()
