"""Pods that agent-sandbox keeps ready in a SandboxWarmPool: each box is a claim on one of them.

The pods are as a template of the cluster's administrator describes them. So each is looked at when
it has been claimed, and handed out only if it is walled in as our own are.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from msgspec.structs import replace

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.api import CALL_DEADLINE_S, RAW, Cluster
from executor_service.backends.kubernetes.objects import (
    ensure_owner,
    keep_secret,
    kept_secrets,
    offer_supervisor,
)
from executor_service.backends.kubernetes.pod import (
    SELECTED,
    KubernetesOptions,
    box_of,
    is_box_of,
    labels_of,
    notes_of,
    owned_by,
    pod_name,
    selecting,
)
from executor_service.backends.kubernetes.pods import Pods
from executor_service.backends.kubernetes.policies import holes
from executor_service.backends.kubernetes.reading import Json, part, parts
from executor_service.backends.kubernetes.status import is_running, why_hopeless, why_waiting
from executor_service.backends.kubernetes.walls import gaps
from executor_service.errors import BackendError, BackendUnavailable, BoxCreateFailed, EngineRefused

_FIRST_POLL_S = 0.05
_LONGEST_POLL_S = 0.5
GROUP = "extensions.agents.x-k8s.io"
VERSION = "v1beta1"
CLAIMS = "sandboxclaims"
WARM_POOLS = "sandboxwarmpools"
TEMPLATES = "sandboxtemplates"
SANDBOX = "Sandbox"
TEMPLATE_LABEL = "agents.x-k8s.io/sandbox-template-ref-hash"
"""Of every pod from a template; the network policy that a template brings selects by it."""
_FINISHED_KEPT_S = 600
_HOPELESS = frozenset(
    {
        "ClaimExpired",
        "EnvVarsInjectionRejected",
        "InvalidMetadata",
        "PodFailed",
        "PodSucceeded",
        "SandboxExpired",
        "TemplateNotFound",
        "VolumeClaimTemplatesError",
        "WarmPoolNotFound",
    }
)
"""Why a claim is not ready that waiting does not change."""


class ClaimedPods:
    """The source of pods that are claimed from a warm pool; see `Source`."""

    def __init__(
        self, cluster: Cluster, options: KubernetesOptions, owner: str, supervisor: bytes
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._namespace = options.namespace
        self._owner = owner
        self._supervisor = supervisor
        self._offered = False
        self._pods = Pods(cluster, options.namespace)

    @property
    def selector(self) -> str:
        """Everybody's: what a claim may add to a pod's labels is for the cluster to say."""
        return selecting(SELECTED)

    async def order(self, spec: BoxSpec, secret: str) -> Box:
        """Make a claim, and note its secret."""
        owner = await ensure_owner(self._cluster, self._options)
        if not self._offered:
            await offer_supervisor(self._cluster, self._options, owner, self._supervisor)
            self._offered = True
        wanted = claim_for(spec, self._options, owner)
        try:
            claim = await self._call("create", CLAIMS, wanted)
            await keep_secret(self._cluster, claim, secret)
        except BackendError as error:
            # It may have been made although the answer was another.
            if not (isinstance(error, EngineRefused) and error.status == HTTPStatus.CONFLICT):
                await self._remove(pod_name(spec.box_key))
            raise
        return replace(box_of(claim, secret), native_id="")

    async def ordered(self, box: Box, spec: BoxSpec) -> Box | str:
        """Look at the claim, then at the pod that it has got."""
        claim = await self._find(pod_name(box.key))
        if claim is None:
            raise BoxCreateFailed(f"the claim of box {box.key} was removed before it had a pod")
        if why := why_unready(claim):
            if is_hopeless(claim):
                raise BoxCreateFailed(f"the claim of box {box.key} gets no pod: {why}")
            return why
        pod = await self._pod_of(claim)
        if pod is None:
            return f"the sandbox {sandbox_of(claim)} has no pod"
        if why := why_hopeless(pod):
            raise BoxCreateFailed(f"the pod of box {box.key} cannot run: {why}")
        if not is_running(pod):
            return why_waiting(pod)
        async for gap in self._gaps(pod, spec):
            name = pod["metadata"]["name"]
            raise BoxCreateFailed(
                f"the pod {name} of the warm pool {self._options.warm_pool} is no sandbox: {gap}"
            )
        return replace(box, native_id=pod["metadata"]["uid"])

    async def _gaps(self, pod: Json, spec: BoxSpec) -> AsyncIterator[str]:
        for gap in gaps(pod, spec, self._options):
            yield gap
        policies = await self._cluster.call(
            lambda api: api.networking.list_namespaced_network_policy(self._namespace, **RAW)
        )
        for hole in holes(policies["items"], pod["metadata"]["labels"], frozenset()):
            yield f"it would have a network: {hole}"

    async def pod(self, box: Box) -> Json | None:
        """The pod of this owner's claim."""
        claim = await self._find(pod_name(box.key))
        if claim is None or not is_box_of(claim, self._owner):
            return None
        return await self._pod_of(claim)

    async def end(self, box: Box) -> None:
        """Have the claim removed after its sandbox, and that after its pod."""
        claim = await self._find(pod_name(box.key))
        if claim is not None and is_box_of(claim, self._owner):
            await self._remove(pod_name(box.key))

    async def boxes(self) -> Sequence[Box]:
        """Claims without a pod included, which have no native id."""
        # Claims first: pod and secret of a claim come after it.
        listed = await self._call("list", CLAIMS, label_selector=owned_by(self._owner))
        claims = [
            claim
            for claim in listed["items"]
            if is_box_of(claim, self._owner) and not claim["metadata"].get("deletionTimestamp")
        ]
        pods = (await self._pods.list(self.selector))["items"]
        known = await kept_secrets(self._cluster, claims)
        uids = {
            owner["name"]: pod["metadata"]["uid"]
            for pod in pods
            for owner in parts(pod, "metadata", "ownerReferences")
            if is_pod_of(pod, owner["name"])
        }
        return [
            replace(
                box_of(claim, known.get(claim["metadata"]["uid"], "")),
                native_id=uids.get(sandbox_of(claim), ""),
            )
            for claim in claims
        ]

    # ---- claims

    async def _pod_of(self, claim: Json) -> Json | None:
        sandbox = sandbox_of(claim)
        pod = await self._pods.find(sandbox) if sandbox else None
        return pod if pod is not None and is_pod_of(pod, sandbox) else None

    async def _find(self, name: str) -> Json | None:
        try:
            return await self._call("get", CLAIMS, name)
        except EngineRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise BackendUnavailable(f"the cluster refuses to show claims: {error}") from error

    async def _remove(self, name: str) -> None:
        """Remove a claim, of which the object stays until its processes have ended."""
        options = {"propagationPolicy": "Foreground"}
        pause_s, started = _FIRST_POLL_S, time.monotonic()
        try:
            await self._call("delete", CLAIMS, name, body=options)
        except EngineRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        while await self._find(name) is not None:
            if time.monotonic() - started > CALL_DEADLINE_S:
                raise BackendUnavailable(f"the claim {name} is not removed")
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)

    async def _call(self, verb: str, plural: str, *what: object, **more: object) -> Json:
        place = (GROUP, VERSION, self._namespace, plural)
        return await self._cluster.call(
            lambda api: getattr(api.custom, f"{verb}_namespaced_custom_object")(
                *place, *what, **more, **RAW
            )
        )


def claim_for(spec: BoxSpec, options: KubernetesOptions, owner: Json) -> Json:
    """The claim, as the API wants it; whatever is in its `env` would forbid a ready pod."""
    expires = datetime.now(UTC) + timedelta(seconds=options.max_age_s)
    notes = notes_of(spec)
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "SandboxClaim",
        "metadata": {
            "name": pod_name(spec.box_key),
            "namespace": options.namespace,
            "labels": labels_of(spec.owner, spec.pool, spec.box_key),
            "annotations": notes,
            "ownerReferences": [owner],
        },
        "spec": {
            "warmPoolRef": {"name": options.warm_pool},
            "lifecycle": {
                "shutdownTime": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "ttlSecondsAfterFinished": _FINISHED_KEPT_S,
                "shutdownPolicy": "Delete",
            },
        },
    }


def sandbox_of(claim: Json) -> str:
    """The name of the sandbox that a claim has got, which is its pod's, too; empty without one."""
    return part(claim, "status", "sandbox").get("name") or ""


def why_unready(claim: Json) -> str:
    """What a claim waits for; empty once it has a sandbox that runs."""
    ready = _ready(claim)
    if ready.get("status") == "True" and sandbox_of(claim):
        return ""
    said = (str(ready.get(name) or "") for name in ("reason", "message"))
    text = " ".join(": ".join(filter(None, said)).split())
    return text or "agent-sandbox's controller has not looked at the claim"


def is_hopeless(claim: Json) -> bool:
    """Whether a claim will never have a sandbox."""
    return _ready(claim).get("reason") in _HOPELESS


def is_pod_of(pod: Json, sandbox: str) -> bool:
    """Whether a pod belongs to the sandbox of that name."""
    owners = parts(pod, "metadata", "ownerReferences")
    return any(
        owner.get("controller") and (owner["kind"], owner["name"]) == (SANDBOX, sandbox)
        for owner in owners
    )


def _ready(claim: Json) -> Json:
    found = parts(claim, "status", "conditions")
    return next((each for each in found if each.get("type") == "Ready"), Json())
