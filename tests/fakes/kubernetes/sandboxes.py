"""What agent-sandbox's controllers compute: names, labels, the pod of a sandbox, its conditions."""

from copy import deepcopy
from datetime import UTC, datetime

from executor_service.backends.kubernetes.reading import Json, part, parts
from tests.fakes.kubernetes.crds import CORE
from tests.fakes.kubernetes.store import now

WARM_POOL = f"{CORE}/warm-pool-sandbox"
TEMPLATE_HASH = f"{CORE}/sandbox-template-ref-hash"
LAUNCH_TYPE = f"{CORE}/launch-type"
CLAIM_UID = f"{CORE}/claim-uid"
POD_NAME = f"{CORE}/pod-name"
_NAME_HASH = f"{CORE}/sandbox-name-hash"
_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def name_hash(name: str) -> str:
    """FNV-1a of 32 bits, in hexadecimal digits."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def controller_of(owner: Json) -> Json:
    """The reference of what a controller owns."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controlled_by(thing: Json, owner: Json) -> bool:
    references = parts(thing, "metadata", "ownerReferences")
    return any(each["uid"] == owner["metadata"]["uid"] for each in references)


def secure(template: Json, spec: Json) -> None:
    """The defaults that a template's pods get."""
    spec.setdefault("automountServiceAccountToken", False)
    managed = template["spec"].get("networkPolicyManagement", "Managed") == "Managed"
    if managed and "networkPolicy" not in template["spec"] and "dnsPolicy" not in spec:
        spec.update(dnsPolicy="None", dnsConfig={"nameservers": ["8.8.8.8", "1.1.1.1"]})


def template_policy(template: Json) -> Json | None:
    """The network policy that comes with a template unless it says that it is Unmanaged."""
    if template["spec"].get("networkPolicyManagement", "Managed") != "Managed":
        return None
    name = template["metadata"]["name"]
    router = {"podSelector": {"matchLabels": {"app": "sandbox-router"}}}
    internet = {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(_PRIVATE)}}
    default: Json = {"ingress": [{"from": [router]}], "egress": [{"to": [internet]}]}
    rules = template["spec"].get("networkPolicy", default)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{name}-network-policy",
            "ownerReferences": [controller_of(template)],
        },
        "spec": {
            "podSelector": {"matchLabels": {TEMPLATE_HASH: name_hash(name)}},
            "policyTypes": ["Ingress", "Egress"],
            **{way: rules[way] for way in ("ingress", "egress") if rules.get(way)},
        },
    }


def pod_metadata(sandbox: Json) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a sandbox's pod; a template cannot set those of the system."""
    wanted = part(sandbox, "spec", "podTemplate", "metadata")
    labels, annotations = (
        {key: value for key, value in part(wanted, kind).items() if not key.startswith(f"{CORE}/")}
        for kind in ("labels", "annotations")
    )
    tracked = {
        f"{CORE}/propagated-{kind}": ",".join(sorted(found))
        for kind, found in (("labels", labels), ("annotations", annotations))
        if found
    }
    own = part(sandbox, "metadata", "labels")
    system = {name: own[name] for name in (WARM_POOL, TEMPLATE_HASH) if name in own}
    hashed = {_NAME_HASH: name_hash(sandbox["metadata"]["name"])}
    return {**labels, **hashed, **system}, {**annotations, **tracked}


def pod_of(sandbox: Json) -> Json:
    """The pod that a sandbox has."""
    labels, annotations = pod_metadata(sandbox)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": sandbox["metadata"]["name"],
            "namespace": sandbox["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_of(sandbox)],
        },
        "spec": deepcopy(sandbox["spec"]["podTemplate"]["spec"]),
    }


def is_ready(sandbox: Json) -> bool:
    conditions = parts(sandbox, "status", "conditions")
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def readiness(pod: Json | None) -> tuple[bool, str, str]:
    """Whether a sandbox with this pod is ready, the reason, and a message."""
    if pod is None:
        return False, "DependenciesNotReady", "Pod does not exist"
    phase = part(pod, "status").get("phase", "Pending")
    if phase == "Succeeded":
        return False, "PodSucceeded", "Pod completed successfully"
    if phase == "Failed":
        return False, "PodFailed", "Pod failed"
    conditions = parts(pod, "status", "conditions")
    if any((each["type"], each["status"]) == ("Ready", "True") for each in conditions):
        return True, "DependenciesReady", "Pod is Ready"
    return False, "DependenciesNotReady", f"Pod exists with phase: {phase}"


def condition(kind: str, holds: bool, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": str(holds),
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }


def conditions_of(sandbox: Json, pod: Json | None, error: str) -> list[Json]:
    """Of a sandbox; those that have not changed keep their time."""
    ready, reason, message = readiness(pod)
    if error:
        ready, reason, message = False, "ReconcilerError", f"Error seen: {error}"
    found = [condition("Ready", ready, reason, message)]
    if reason in {"PodSucceeded", "PodFailed"}:
        found.append(condition("Finished", True, reason, message))
    old = parts(sandbox, "status", "conditions")
    same = [{**each, "lastTransitionTime": ""} for each in old] == [
        {**each, "lastTransitionTime": ""} for each in found
    ]
    return old if same else found


def age_s(since: str) -> float:
    then = datetime.strptime(since, _TIME).replace(tzinfo=UTC)
    return (datetime.now(UTC) - then).total_seconds()


def is_over(claim: Json) -> bool:
    """Whether a claim's time is over, or that of what is left of its sandbox."""
    lifecycle = part(claim, "spec", "lifecycle")
    if "shutdownTime" in lifecycle and age_s(lifecycle["shutdownTime"]) > 0:
        return True
    for each in parts(claim, "status", "conditions"):
        if each["type"] == "Finished" and "ttlSecondsAfterFinished" in lifecycle:
            return age_s(each["lastTransitionTime"]) > lifecycle["ttlSecondsAfterFinished"]
    return False
