"""What becomes of an owner's pods, as the API server tells it.

One watch serves all: pods that are awaited, and pods that are lost. The end of a pod usually ends
its streams, but not if its node is gone or a proxy keeps a dead connection open.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress

from executor_service.backends.kubernetes.api import Json, part, parts
from executor_service.backends.kubernetes.pod import CONTAINER
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendError, BoxCreateFailed, EngineRefused
from services.lifecycle import Workers

_PAUSE_S = 1.0
"""The time between the beginnings of two watches, however soon the first ends."""
_LOOK_AGAIN_S = 2.0
"""How long a change is awaited before a pod without news is asked for."""

log = logging.getLogger(__name__)


_HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons why a container will never start."""


_OVER_ITS_SIZE = (
    "Usage of EmptyDir volume ",
    "ephemeral local storage usage exceeds the total limit of containers",
    "exceeded its local ephemeral storage limit",
)
"""What a kubelet reports of a pod that wrote too much."""


class PodWatch:
    """Knows how an owner's pods are, and cuts the streams into lost ones; runs from first use."""

    def __init__(self, pods: Pods, selector: str) -> None:
        self._pods = pods
        self._selector = selector
        self._known: dict[str, Json] = {}
        """By name, pods as they are now; empty while the server is not heard."""
        self._waiting: dict[str, asyncio.Event] = {}
        self._streams: dict[str, set[ExecStream]] = {}
        self._complaint = ""
        self._workers = Workers()

    async def until_running(self, name: str, options: KubernetesConfig) -> None:
        """Wait until a pod's supervisor has been started; BoxCreateFailed if that is impossible."""
        why = "the cluster does not answer"
        unscheduled_until = time.monotonic() + options.schedule_timeout_s
        try:
            async with asyncio.timeout(options.start_timeout_s), self._changes_of(name) as changed:
                while why:
                    pod = self._known.get(name) or await self._pods.find(name)
                    why = _why_not_running(name, pod)
                    if time.monotonic() > unscheduled_until:
                        _check_scheduled(pod, options.schedule_timeout_s)
                    if why:
                        await _wait_for(changed)
        except TimeoutError as error:
            raise BoxCreateFailed(
                f"the pod {name} does not run after {options.start_timeout_s:g} s: {why}"
            ) from error

    def guard(self, uid: str) -> None:
        """Watch a pod until it is forgotten."""
        self._streams.setdefault(uid, set())
        self._start()

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

    def _start(self) -> None:
        if not self._workers:
            self._workers.start("watch of pods", self._run())

    @asynccontextmanager
    async def _changes_of(self, name: str) -> AsyncGenerator[asyncio.Event]:
        self._start()
        changed = self._waiting[name] = asyncio.Event()
        try:
            yield changed
        finally:
            del self._waiting[name]

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                await self._follow()
            except (BackendError, EngineRefused) as error:
                if str(error) != self._complaint:
                    log.warning("what becomes of pods cannot be seen for a moment: %s", error)
                self._complaint = str(error)
            finally:
                self._known.clear()
            await asyncio.sleep(began + _PAUSE_S - time.monotonic())

    async def _follow(self) -> None:
        """Compare with the existing pods, then take in what changes, until the server ends it."""
        missing = set(self._streams)
        found = await self._pods.list(self._selector)
        self._complaint = ""
        for pod in found["items"]:
            self._take(pod)
            missing.discard(pod["metadata"]["uid"])
        for uid in missing:
            self._cut(uid)
        version = found["metadata"]["resourceVersion"]
        async with aclosing(self._pods.changes(self._selector, version)) as events:
            async for event in events:
                pod: Json = event["object"]
                if event["type"] == "ERROR":
                    return  # the version is too old
                if event["type"] == "DELETED":
                    self._known.pop(pod["metadata"]["name"], None)
                    self._cut(pod["metadata"]["uid"])
                    self._tell(pod["metadata"]["name"])
                elif event["type"] != "BOOKMARK":
                    self._take(pod)

    def _take(self, pod: Json) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._known[name] = pod
        if why_gone(pod, uid):
            self._cut(uid)
        self._tell(name)

    def _tell(self, name: str) -> None:
        if name in self._waiting:
            self._waiting[name].set()

    def _cut(self, uid: str) -> None:
        for stream in self._streams.pop(uid, ()):
            stream.cut()


async def _wait_for(changed: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_AGAIN_S):
            await changed.wait()
    changed.clear()


def _why_not_running(name: str, pod: Json | None) -> str:
    """The reason why a pod waits; empty once it runs, BoxCreateFailed if it never will."""
    if pod is None:
        raise BoxCreateFailed(f"the pod {name} was removed before it ran")
    if why := why_hopeless(pod):
        raise BoxCreateFailed(f"the pod {name} cannot run: {why}")
    return "" if is_running(pod) else why_waiting(pod)


def _check_scheduled(pod: Json | None, timeout_s: float) -> None:
    for condition in parts(pod or {}, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            raise BoxCreateFailed(
                f"no node takes the sandbox after {timeout_s:g} s "
                f"(executor.kubernetes.schedule_timeout_s): {_line(condition)}"
            )


def is_running(pod: Json) -> bool:
    """Whether the supervisor has been started."""
    return "running" in part(_container(pod), "state")


def why_gone(pod: Json, uid: str) -> str:
    """Say why the box that was this pod is lost; empty if it is not."""
    status = part(pod, "status")
    if pod["metadata"]["uid"] != uid:
        return "another pod has its name"
    if pod["metadata"].get("deletionTimestamp"):
        return "its pod is being deleted"
    if status.get("phase") in {"Failed", "Succeeded"}:
        return f"its pod has ended: {_how_it_ended(pod)}"
    container = _container(pod)
    if container.get("restartCount") or "terminated" in part(container, "state"):
        return f"its container has ended: {_how_it_ended(pod)}"
    return ""


def is_out_of_memory(pod: Json) -> bool:
    """Whether the pod's memory limit ended its container."""
    container = _container(pod)
    return "OOMKilled" in {
        part(container, state, "terminated").get("reason") for state in ("state", "lastState")
    }


def is_over_its_size(pod: Json) -> bool:
    """Whether its node ended the pod because of its own writes, not those of others."""
    status = part(pod, "status")
    message = str(status.get("message") or "")
    return status.get("reason") == "Evicted" and any(said in message for said in _OVER_ITS_SIZE)


def why_hopeless(pod: Json) -> str:
    """Say why this pod will never run; empty while it may."""
    waiting = part(_container(pod), "state", "waiting")
    if waiting.get("reason") in _HOPELESS:
        return _line(waiting)
    return why_gone(pod, pod["metadata"]["uid"])


def why_waiting(pod: Json) -> str:
    """Say what a pod that does not run yet waits for."""
    conditions = parts(pod, "status", "conditions")
    unmet = (one for one in conditions if one.get("status") == "False" and one.get("message"))
    return _line(part(_container(pod), "state", "waiting") or next(unmet, Json()))


def _container(pod: Json) -> Json:
    found = parts(pod, "status", "containerStatuses")
    return next((each for each in found if each.get("name") == CONTAINER), Json())


def _how_it_ended(pod: Json) -> str:
    status = part(pod, "status")
    is_told = status.get("reason") or status.get("message")
    return _line(status if is_told else part(_container(pod), "state", "terminated"))


def _line(said: Json) -> str:
    parts = (str(said.get(name) or "") for name in ("reason", "message"))
    exit_code = f"exit code {said['exitCode']}" if "exitCode" in said else ""
    said_so = " ".join(": ".join(filter(None, (*parts, exit_code))).split())
    return said_so or "the cluster does not say why"
