"""Learning soon that a pod is lost: one look every two seconds at all pods of a backend.

The end of a pod also ends the streams into it, as a rule: not where its node has gone, or where
something between the pod and here keeps a dead connection open.
"""

import asyncio
import logging

from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.status import why_gone
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.errors import BackendError
from services.lifecycle import Workers

_PAUSE_S = 2.0

log = logging.getLogger(__name__)


class PodWatch:
    """Cuts the streams into pods that are lost; runs once there is a pod to look after."""

    def __init__(self, pods: Pods, selector: str) -> None:
        self._pods = pods
        self._selector = selector
        self._streams: dict[str, set[ExecStream]] = {}
        self._complaint = ""
        self._workers = Workers()

    def guard(self, uid: str) -> None:
        """Look after a pod from now on, until it is forgotten."""
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
        """Look after a pod no more."""
        self._streams.pop(uid, None)

    async def close(self) -> None:
        """Look after none."""
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
        """Compare with what there is now."""
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
