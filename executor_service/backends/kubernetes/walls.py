"""Whether a pod that somebody else has described is walled in as our own pods are.

What is looked at is what `pod.manifest` sets.
"""

import json
from collections.abc import Iterator

from executor_service.backends.base import BoxSpec, Limits
from executor_service.backends.docker.container import tmpfs_sizes
from executor_service.backends.kubernetes.pod import (
    CONTAINER,
    SELECTED,
    UNCLAIMED,
    KubernetesOptions,
    Objects,
    manifest,
    program,
)
from executor_service.backends.kubernetes.reading import Json, part, parts

_NOT_SET = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
_NO_OTHERS = ("initContainers", "ephemeralContainers")
_SET = (
    *("restartPolicy", "automountServiceAccountToken", "enableServiceLinks", "dnsPolicy"),
    "runtimeClassName",
)
_LONGEST_GRACE_S = 5
_DECIMAL = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def gaps(pod: Json, spec: BoxSpec, options: KubernetesOptions) -> Iterator[str]:
    """What a pod, or the template of one, must change to be a box; one line each."""
    ours: Json = manifest(spec, options, Objects({}, ""), "")["spec"]
    theirs: Json = part(pod, "spec")
    labels = part(pod, "metadata", "labels")
    for name, value in SELECTED.items():
        if labels.get(name) != value:
            yield f"the label {name} must be {value}"
    for field in _SET:
        if theirs.get(field) != ours.get(field):
            yield _must_be(field, ours.get(field))
    if not options.host_users and theirs.get("hostUsers") is not False:
        yield _must_be("hostUsers", False)
    for field in (*_NOT_SET, *_NO_OTHERS):
        if theirs.get(field):
            yield _must_be(field, None)
    if theirs.get("terminationGracePeriodSeconds", 30) > _LONGEST_GRACE_S:
        yield f"terminationGracePeriodSeconds must be at most {_LONGEST_GRACE_S}"
    containers = parts(theirs, "containers")
    if [each.get("name") for each in containers] != [CONTAINER]:
        yield f"containers must be one of the name {CONTAINER}"
        return
    (container,) = containers
    yield from _program(container, program(spec.limits, options, UNCLAIMED))
    yield from _context(part(theirs, "securityContext"), container, ours)
    yield from _resources(part(container, "resources"), ours)
    yield from _files(theirs, container, spec.limits)


def _program(container: Json, command: list[str]) -> Iterator[str]:
    if container.get("command") != command or container.get("args"):
        yield _must_be("command", command)
    if container.get("envFrom") or any("valueFrom" in each for each in parts(container, "env")):
        yield "env must have plain values, which no secret is"
    for field in ("lifecycle", "volumeDevices"):
        if container.get(field):
            yield _must_be(field, None)


def _context(outer: Json, container: Json, ours: Json) -> Iterator[str]:
    wanted: Json = {**ours["securityContext"], **ours["containers"][0]["securityContext"]}
    there = {**outer, **part(container, "securityContext")}
    for field in (
        *("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"),
        *("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile"),
    ):
        if there.get(field) != wanted[field]:
            yield _must_be(f"securityContext.{field}", wanted[field])
    if there.get("privileged"):
        yield _must_be("securityContext.privileged", False)
    if there.get("procMount", "Default") != "Default" or there.get("supplementalGroups"):
        yield "securityContext must have neither procMount nor supplementalGroups"


def _resources(resources: Json, ours: Json) -> Iterator[str]:
    wanted = ours["containers"][0]["resources"]["limits"]
    there = part(resources, "limits")
    for name, most in wanted.items():
        if name not in there:
            yield f"resources.limits.{name} must be set"
        elif quantity(there[name]) > quantity(most):
            yield f"resources.limits.{name} must be at most {most}"
        elif part(resources, "requests").get(name, there[name]) != there[name]:
            yield f"resources.requests.{name} must be that of the limits"


def _files(spec: Json, container: Json, limits: Limits) -> Iterator[str]:
    volumes = {each["name"]: each for each in parts(spec, "volumes")}
    mounts = {each["mountPath"]: each for each in parts(container, "volumeMounts")}
    used = 0.0
    for path, most in tmpfs_sizes(limits).items():
        empty = part(volumes.get(mounts.pop(path, {}).get("name", ""), {}), "emptyDir")
        used += quantity(empty.get("sizeLimit", "0"))
        yield from _volume(path, empty, "Memory", most)
    empty = part(volumes.get(mounts.pop("/workspace", {}).get("name", ""), {}), "emptyDir")
    yield from _volume("/workspace", empty, None, limits.workspace_bytes)
    if used >= quantity(part(container, "resources", "limits").get("memory", "inf")):
        yield "resources.limits.memory must exceed the sizes of all volumes in memory"
    for path, mount in mounts.items():
        volume = volumes.get(mount["name"], {})
        if not mount.get("readOnly") or not volume.get("configMap"):
            yield f"{path} must not be mounted, or be a ConfigMap that is mounted read-only"


def _volume(path: str, empty: Json, medium: str | None, most: int) -> Iterator[str]:
    if "sizeLimit" not in empty or empty.get("medium") != medium:
        kind = f"an emptyDir{' of the medium Memory' if medium else ''} with a sizeLimit"
        yield f"{path} must be {kind}"
    elif quantity(empty["sizeLimit"]) > most:
        yield f"the sizeLimit of {path} must be at most {most}"


def quantity(text: object) -> float:
    """The number that a quantity is, in whole units."""
    written = str(text)
    digits = written.rstrip("mkiKMGT")
    unit = written[len(digits) :]
    return float(digits) * {"": 1, **_DECIMAL, **_BINARY}[unit]


def _must_be(field: str, value: object) -> str:
    return f"{field} must {f'be {json.dumps(value)}' if value is not None else 'not be set'}"
