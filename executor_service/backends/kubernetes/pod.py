"""The pod that is a box: its hardening, its names and labels."""

from collections.abc import Mapping

from msgspec import Struct

from executor_service.backends.base import (
    BOX,
    MIB,
    OWNER,
    POOL,
    WORKSPACE,
    Box,
    BoxSpec,
    Limits,
    labelled_box,
    labels_of,
)
from executor_service.backends.bridge import PYTHON, supervisor_arguments
from executor_service.backends.docker.host_config import check_memory, tmpfs_sizes
from executor_service.backends.kubernetes.api import Json, part
from executor_service.config import KubernetesConfig

NAME = "kubernetes"
CONTAINER = "sandbox"
SELECTED: Mapping[str, str] = {
    "app.kubernetes.io/name": "hermes-sandbox",
    "app.kubernetes.io/managed-by": "hermes-executor",
}
"""Labels of every box, which network policies select; set before a pod has any network."""
FOLDER = "/opt/hermes"
PROGRAM = "supervisor.pyz"
SUPERVISOR = (*PYTHON, f"{FOLDER}/{PROGRAM}")
UID = 1000
GRACE_S = 1
_DEFAULT_CPU_COUNT = 1.0
_LIFETIME_S = 48 * 3600.0
_LOG_BYTES = 64 * MIB


class Objects(Struct, frozen=True):
    """What a pod refers to."""

    owner: Json
    supervisor: str
    """The ConfigMap with the supervisor."""


def pod_name(box_key: str) -> str:
    """The name of a box's pod; keys have no hyphen, so names are unique."""
    return f"hermes-{box_key.replace('_', '-')}-box"


def selected_labels(owner: str, pool: str, box_key: str) -> dict[str, str]:
    """The labels by which boxes are found; a workspace's path is an annotation."""
    return {**SELECTED, OWNER: owner, POOL: pool, BOX: box_key}


def selecting(labels: Mapping[str, str]) -> str:
    """Return these labels as a selector."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


def owned_by(owner: str) -> str:
    """Return the selector of everything that belongs to an owner."""
    return selecting({**SELECTED, OWNER: owner})


def manifest(
    spec: BoxSpec, options: KubernetesConfig, objects: Objects, lifetime_s: float = _LIFETIME_S
) -> Json:
    """The pod for the API; the cluster itself ends it after its lifetime."""
    check_memory(spec.limits)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(spec.box_key),
            "namespace": options.namespace,
            "labels": selected_labels(spec.owner, spec.pool, spec.box_key),
            "annotations": labels_of(spec),
            "ownerReferences": [objects.owner],
        },
        "spec": {
            **_placement(options),
            "activeDeadlineSeconds": max(1, round(lifetime_s)),
            "containers": [_container(spec, options)],
            "volumes": _volumes(spec, options, objects),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": UID,
                "runAsGroup": UID,
                "fsGroup": UID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": _seccomp(options.seccomp_profile),
            },
        },
    }


def _placement(options: KubernetesConfig) -> Json:
    chosen: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": False,
        "hostname": "sandbox",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
    }
    if not options.host_users:
        chosen["hostUsers"] = False
    if options.runtime_class:
        chosen["runtimeClassName"] = options.runtime_class
    if options.priority_class:
        chosen["priorityClassName"] = options.priority_class
    if options.pull_secrets:
        chosen["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    if options.node_selector:
        chosen["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        chosen["tolerations"] = [dict(one) for one in options.tolerations]
    return chosen


def _container(spec: BoxSpec, options: KubernetesConfig) -> Json:
    limits = spec.limits
    command = [*SUPERVISOR, *supervisor_arguments(spec)]
    if not options.host_users:
        # RLIMIT_NPROC counts the uid's processes: only the box's in a user namespace of its own.
        command += ["--max-processes", str(limits.pids)]
    cpu_count = limits.cpu_count or _DEFAULT_CPU_COUNT
    requested = cpu_quantity(min(options.cpu_request or cpu_count, cpu_count))
    resources = {
        "memory": str(limits.memory_bytes),
        "cpu": cpu_quantity(cpu_count),
        "ephemeral-storage": str(_disk_bytes(limits, options)),
    }
    mounts = [{"name": _volume(path), "mountPath": path} for path in tmpfs_sizes(limits)]
    workspace: Json = {"name": "workspace", "mountPath": "/workspace"}
    if options.workspace_claim:
        workspace["subPath"] = spec.workspace.name
    return {
        "name": CONTAINER,
        "image": options.image,
        "command": command,
        "workingDir": "/workspace",
        "env": [{"name": "HOME", "value": "/workspace"}],
        "resources": {"requests": {**resources, "cpu": requested}, "limits": resources},
        "volumeMounts": [
            {"name": "supervisor", "mountPath": FOLDER, "readOnly": True},
            workspace,
            *mounts,
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
    }


def cpu_quantity(count: float) -> str:
    """The notation of the API for so many processors."""
    return f"{max(1, round(count * 1000))}m"


def _disk_bytes(limits: Limits, options: KubernetesConfig) -> int:
    return _LOG_BYTES + (0 if options.workspace_claim else limits.workspace_bytes)


def _volumes(spec: BoxSpec, options: KubernetesConfig, objects: Objects) -> list[Json]:
    workspace: Json = {"emptyDir": {"sizeLimit": str(spec.limits.workspace_bytes)}}
    if options.workspace_claim:
        workspace = {"persistentVolumeClaim": {"claimName": options.workspace_claim}}
    return [
        {"name": "supervisor", "configMap": {"name": objects.supervisor, "defaultMode": 0o444}},
        {"name": "workspace", **workspace},
        *(
            {"name": _volume(path), "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}
            for path, size in tmpfs_sizes(spec.limits).items()
        ),
    ]


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _seccomp(profile: str) -> Json:
    if profile:
        return {"type": "Localhost", "localhostProfile": profile}
    return {"type": "RuntimeDefault"}


def box_of(pod: Json) -> Box:
    """Return the box of a pod."""
    metadata = pod["metadata"]
    return labelled_box(NAME, metadata["uid"], metadata["annotations"])


def is_box_of(pod: Json, owner: str) -> bool:
    """Whether a pod is a box of that owner, whatever its labels say."""
    notes = part(pod, "metadata", "annotations")
    complete = {BOX, OWNER, POOL, WORKSPACE} <= set(notes)
    return complete and notes[OWNER] == owner and pod["metadata"]["name"] == pod_name(notes[BOX])
