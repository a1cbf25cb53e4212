"""Claims on sandboxes of kubernetes-sigs/agent-sandbox: what is sent, and what their status says.

The fields are those of its API `extensions.agents.x-k8s.io/v1beta1`.
"""

from datetime import UTC, datetime, timedelta

from executor_service.backends.base import BoxSpec
from executor_service.backends.kubernetes.pod import (
    KubernetesOptions,
    labels_of,
    notes_of,
    pod_name,
)
from executor_service.backends.kubernetes.reading import Json, part, parts

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
