"""What the controllers of kubernetes-sigs/agent-sandbox do, as their source for v1beta1 says.

A warm pool keeps sandboxes; a claim adopts one of them, or has one made from the pool's template
where none is ready; a sandbox has a pod of its own name.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

from executor_service.backends.kubernetes.reading import Json, part, parts
from tests.fakes.kubernetes.crds import CORE, VERSION
from tests.fakes.kubernetes.errors import Refused
from tests.fakes.kubernetes.sandboxes import (
    CLAIM_UID,
    LAUNCH_TYPE,
    POD_NAME,
    TEMPLATE_HASH,
    WARM_POOL,
    age_s,
    condition,
    conditions_of,
    controlled_by,
    controller_of,
    is_over,
    is_ready,
    name_hash,
    pod_metadata,
    pod_of,
    secure,
    template_policy,
)
from tests.fakes.kubernetes.store import Store

_ASSIGNED = f"{CORE}/sandbox-name"
_LOOK_EVERY_S = 0.03
_PATIENCE_S = 2
"""How long a claim waits for ready ones to have an address, before one is made for it."""


class _Unmet(Exception):
    """Why a claim has no sandbox: the reason and the message of its condition."""


class AgentSandbox:
    """The controllers, in one loop."""

    def __init__(
        self,
        store: Store,
        make_pod: Callable[[Json], Awaitable[Json]],
        remove: Callable[[str, Json], None],
    ) -> None:
        self._store = store
        self._make_pod = make_pod
        self._remove = remove

    async def run(self) -> None:
        while True:
            await self.reconcile()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def reconcile(self) -> None:
        for template in self._living("sandboxtemplates"):
            self._ensure_policy(template)
        for pool in self._living("sandboxwarmpools"):
            self._fill(pool)
        for claim in self._living("sandboxclaims"):
            if is_over(claim):
                self._remove("sandboxclaims", claim)
            else:
                self._serve(claim)
        for sandbox in self._living("sandboxes"):
            await self._run_pod(sandbox)

    def _living(self, resource: str) -> list[Json]:
        return [
            thing
            for thing in self._store.select(resource)
            if "deletionTimestamp" not in thing["metadata"]
        ]

    def _get(self, resource: str, name: str) -> Json | None:
        return next(
            (one for one in self._living(resource) if one["metadata"]["name"] == name), None
        )

    def _update(self, thing: Json, **status: Any) -> None:
        if any(part(thing, "status").get(name) != value for name, value in status.items()):
            thing["status"] = {**part(thing, "status"), **status}
            self._store.touch(thing)

    # ---- SandboxTemplate and SandboxWarmPool

    def _ensure_policy(self, template: Json) -> None:
        wanted = template_policy(template)
        if wanted and not self._get("networkpolicies", wanted["metadata"]["name"]):
            self._store.add("networkpolicies", self._store.complete("networkpolicies", wanted))

    def _fill(self, pool: Json) -> None:
        name = pool["metadata"]["name"]
        template = self._get("sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"])
        kept = [each for each in self._living("sandboxes") if controlled_by(each, pool)]
        for _ in range(pool["spec"].get("replicas", 1) - len(kept)):
            if template is not None:
                labels = {WARM_POOL: name_hash(name), LAUNCH_TYPE: "warm"}
                self._make(f"{name}-{secrets.token_hex(3)[:5]}", template, pool, labels)
        ready = sum(is_ready(each) for each in kept)
        self._update(pool, replicas=len(kept), readyReplicas=ready)

    def _make(self, name: str, template: Json, owner: Json, labels: dict[str, str]) -> Json:
        """A sandbox from a template, which then is a pool's or a claim's."""
        hashed = {TEMPLATE_HASH: name_hash(template["metadata"]["name"])}
        blueprint = deepcopy(template["spec"]["podTemplate"])
        secure(template, blueprint["spec"])
        metadata = blueprint.setdefault("metadata", {})
        metadata["labels"] = {**part(metadata, "labels"), **labels, **hashed}
        sandbox = {
            "apiVersion": f"{CORE}/{VERSION}",
            "kind": "Sandbox",
            "metadata": {
                "name": name,
                "labels": {**labels, **hashed},
                "annotations": {f"{CORE}/sandbox-template-ref": template["metadata"]["name"]},
                "ownerReferences": [controller_of(owner)],
            },
            "spec": {"podTemplate": blueprint, "operatingMode": "Running"},
        }
        return self._store.add("sandboxes", self._store.complete("sandboxes", sandbox))

    # ---- SandboxClaim

    def _serve(self, claim: Json) -> None:
        try:
            sandbox = self._sandbox_for(claim)
        except _Unmet as unmet:
            self._update(claim, conditions=[condition("Ready", False, *unmet.args)])
            return
        if sandbox is None:
            # Ready ones have no address yet: the status says nothing meanwhile.
            return
        conditions = parts(sandbox, "status", "conditions")
        if not conditions:
            conditions = [condition("Ready", False, "SandboxNotReady", "Sandbox is not ready")]
        found: Json = {"name": sandbox["metadata"]["name"]}
        if addresses := part(sandbox, "status").get("podIPs"):
            found["podIPs"] = addresses
        self._update(claim, conditions=deepcopy(conditions), sandbox=found)

    def _sandbox_for(self, claim: Json) -> Json | None:
        self._check_metadata(claim)
        names = (
            part(claim, "status", "sandbox").get("name"),
            part(claim, "metadata", "annotations").get(_ASSIGNED),
            claim["metadata"]["name"],
        )
        for name in names:
            known = self._get("sandboxes", name) if name else None
            if known is not None and controlled_by(known, claim):
                return known
        pool_name = claim["spec"]["warmPoolRef"]["name"]
        pool = self._get("sandboxwarmpools", pool_name)
        if not (claim["spec"].get("env") or claim["spec"].get("volumeClaimTemplates")):
            candidates = self._candidates(pool)
            with_address = [one for one in candidates if part(one, "status").get("podIPs")]
            if with_address:
                return self._adopt(claim, max(with_address, key=is_ready))
            if candidates and age_s(claim["metadata"]["creationTimestamp"]) < _PATIENCE_S:
                return None
        if pool is None:
            raise _Unmet("WarmPoolNotFound", f'SandboxWarmPool "{pool_name}" not found')
        template = self._get("sandboxtemplates", pool["spec"]["sandboxTemplateRef"]["name"])
        if template is None:
            name = pool["spec"]["sandboxTemplateRef"]["name"]
            raise _Unmet("TemplateNotFound", f'SandboxTemplate "{name}" not found')
        labels = {CLAIM_UID: claim["metadata"]["uid"], LAUNCH_TYPE: "cold"}
        return self._make(claim["metadata"]["name"], template, claim, labels)

    def _candidates(self, pool: Json | None) -> list[Json]:
        return [
            each
            for each in self._living("sandboxes")
            if pool is not None and controlled_by(each, pool)
        ]

    def _adopt(self, claim: Json, sandbox: Json) -> Json:
        metadata = sandbox["metadata"]
        claim["metadata"].setdefault("annotations", {})[_ASSIGNED] = metadata["name"]
        self._store.touch(claim)
        blueprint = sandbox["spec"]["podTemplate"]["metadata"]
        for labels in (metadata["labels"], blueprint["labels"]):
            labels.pop(WARM_POOL)
            labels[CLAIM_UID] = claim["metadata"]["uid"]
        metadata["labels"][LAUNCH_TYPE] = "warm"
        metadata["annotations"][POD_NAME] = metadata["name"]
        metadata["ownerReferences"] = [controller_of(claim)]
        more = part(claim, "spec", "additionalPodMetadata")
        for kind in ("labels", "annotations"):
            blueprint[kind] = {**part(blueprint, kind), **part(more, kind)}
        self._store.touch(sandbox)
        return sandbox

    def _check_metadata(self, claim: Json) -> None:
        more = part(claim, "spec", "additionalPodMetadata")
        for label in part(more, "labels"):
            if label.partition("/")[0] != "sandbox.users.io":
                raise _Unmet("InvalidMetadata", f'label "{label}" is not in the allowlist')
        for note in part(more, "annotations"):
            if note.partition("/")[0].endswith("k8s.io") and "/" in note:
                raise _Unmet("InvalidMetadata", f'restricted system domain: "{note}"')

    # ---- Sandbox

    async def _run_pod(self, sandbox: Json) -> None:
        name = sandbox["metadata"]["name"]
        pods = [each for each in self._store.select("pods") if each["metadata"]["name"] == name]
        error = ""
        if pods:
            pod = pods[0]
            labels, annotations = pod_metadata(sandbox)
            if (pod["metadata"]["labels"], pod["metadata"]["annotations"]) != (labels, annotations):
                pod["metadata"].update(labels=labels, annotations=annotations)
                self._store.touch(pod)
        else:
            try:
                pod = await self._make_pod(pod_of(sandbox))
            except Refused as refused:
                pod, error = None, str(refused)
        addresses = [each["ip"] for each in parts(pod or {}, "status", "podIPs")]
        self._update(sandbox, conditions=conditions_of(sandbox, pod, error), podIPs=addresses)
