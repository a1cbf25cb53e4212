"""Boxes that are pods of a Kubernetes cluster, one each, in a namespace of their own.

The supervisor is the container's first process. The executor reaches it through a bridge: a
command that the cluster runs in the pod and whose streams it hands on over a WebSocket.
"""

import asyncio
import secrets
from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from executor_service.backends.base import Box, BoxSpec, ByteStream, Capabilities
from executor_service.backends.folder_store import FolderStore
from executor_service.backends.greeting import expect_greeting, introduce
from executor_service.backends.kubernetes import probe as kubernetes_probe
from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, Cluster
from executor_service.backends.kubernetes.claims import ClaimedPods
from executor_service.backends.kubernetes.ordered import OrderedPods
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    SOCKET,
    SUPERVISOR,
    KubernetesOptions,
)
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.reading import Json
from executor_service.backends.kubernetes.status import (
    is_out_of_memory,
    is_over_its_size,
    why_gone,
)
from executor_service.backends.kubernetes.store import claim_store
from executor_service.backends.kubernetes.stream import ExecStream
from executor_service.backends.kubernetes.watch import PodWatch
from executor_service.backends.making import made
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

_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 0.5


class Source(Protocol):
    """Where the pods of boxes come from."""

    @property
    def selector(self) -> str:
        """Labels that all of its pods have."""
        ...

    async def order(self, spec: BoxSpec, secret: str) -> Box:
        """Ask the cluster for a pod; the box has no native id as long as its pod is not known."""
        ...

    async def ordered(self, box: Box, spec: BoxSpec) -> Box | str:
        """The box once its pod runs, else what it waits for; BoxCreateFailed when it never will."""
        ...

    async def pod(self, box: Box) -> Json | None:
        """The pod of a box of ours, if there is one."""
        ...

    async def end(self, box: Box) -> None:
        """Have the pod of a box of ours end; returns when it is gone."""
        ...

    async def boxes(self) -> Sequence[Box]:
        """All boxes of ours that nobody is ending."""
        ...


class KubernetesBackend:
    """Makes boxes in a Kubernetes cluster, one pod each."""

    def __init__(self, owner: str, supervisor: bytes, options: KubernetesOptions) -> None:
        self._owner = owner
        self._options = options
        self._cluster = Cluster(options.address)
        make = ClaimedPods if options.warm_pool else OrderedPods
        self._source: Source = make(self._cluster, options, owner, supervisor)
        self._store = claim_store(self._cluster, options, owner, supervisor)
        self._watch = PodWatch(Pods(self._cluster, options.namespace), self._source.selector)

    async def probe(self) -> Capabilities:
        """What the cluster allows here, and what it is said to enforce."""
        return await kubernetes_probe.probe(self._cluster, self._options, self._owner)

    async def create(self, spec: BoxSpec) -> Box:
        """Come by a pod and wait until its supervisor answers."""
        box = await made(self._order(spec), self.destroy)
        try:
            return await self._until_ready(box, spec)
        except BaseException:
            await unbroken(self.destroy(box))
            raise

    async def _order(self, spec: BoxSpec) -> Box:
        try:
            return await self._source.order(spec, secrets.token_hex(32))
        except EngineRefused as error:
            raise _create_failed(error) from error

    async def _until_ready(self, box: Box, spec: BoxSpec) -> Box:
        """Wait until the supervisor has taken the box's name and secret."""
        pause_s = _FIRST_POLL_S
        found: Box | str = "the cluster does not answer"
        try:
            async with asyncio.timeout(self._options.start_timeout_s):
                while isinstance(found, str):
                    await asyncio.sleep(pause_s)
                    pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
                    found = await self._source.ordered(box, spec)
                stream = await self.connect(found)
                try:
                    await introduce(stream, found, CALL_DEADLINE_S)
                finally:
                    await stream.close()
                return found
        except TimeoutError as error:
            raise BoxCreateFailed(
                f"the pod of box {box.key} does not run after {self._options.start_timeout_s:g} s: "
                f"{found if isinstance(found, str) else 'its supervisor does not answer'}"
            ) from error
        except EngineRefused as error:
            raise _create_failed(error) from error
        except (BoxLost, LinkClosed) as error:
            raise BoxCreateFailed(f"the supervisor does not answer: {error}") from error

    async def connect(self, box: Box) -> ByteStream:
        """Run a bridge in the pod and take its streams over, until the pod is lost."""
        # First, as it may be lost while it is looked at.
        self._watch.guard(box.native_id)
        pod = await self._source.pod(box)
        if pod is None:
            raise BoxLost(f"box {box.key} is gone: it has no pod")
        if why := why_gone(pod, box.native_id):
            raise _lost(pod)(f"box {box.key} is gone: {why}")
        stream = await self._bridge(box, pod["metadata"]["name"])
        self._watch.hold(box.native_id, stream)
        return stream

    async def _bridge(self, box: Box, pod: str) -> ExecStream:
        command = (*SUPERVISOR, "--bridge", SOCKET)
        try:
            stream = await self._cluster.exec(self._options.namespace, pod, CONTAINER, command)
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
        return stream

    async def destroy(self, box: Box) -> None:
        """Have the node end the pod, then make sure that it is gone."""
        self._watch.forget(box.native_id)
        await self._source.end(box)

    async def list_boxes(self) -> list[Box]:
        """All boxes of this owner that nobody is ending."""
        try:
            return list(await self._source.boxes())
        except EngineRefused as error:
            raise BackendUnavailable(f"the cluster refuses to list boxes: {error}") from error

    @property
    def workspace_store(self) -> FolderStore | None:
        """The folders of workspaces in the claim, where pods of our own may have it."""
        return (
            self._store if self._options.workspace_claim and not self._options.warm_pool else None
        )

    async def close(self) -> None:
        """Let go of the cluster's client; the boxes live on."""
        await self._watch.close()
        await self._cluster.close()


def _lost(pod: Json) -> type[BoxLost]:
    """As what a pod is lost that has ended."""
    if is_out_of_memory(pod):
        return BoxOutOfMemory
    return BoxOutOfSpace if is_over_its_size(pod) else BoxLost


def _create_failed(error: EngineRefused) -> BackendError:
    if error.status == HTTPStatus.UNAUTHORIZED:
        return BackendUnavailable(f"the cluster does not know this executor: {error}")
    if error.status >= 500:
        return BackendUnavailable(f"the cluster cannot make boxes now: {error}")
    return BoxCreateFailed(f"the cluster refuses the box: {error}")
