"""What an API server with Pod Security "restricted" admits into its one namespace."""

import re
from collections.abc import Iterator

import kubernetes_validate

from executor_service.backends.kubernetes.api import Json, part, parts
from tests.fakes.kubernetes.errors import Refused

VERSION = "1.35"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VOLUME_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kMGTP]|[KMGTP]i)?")
_VOLUME_TYPES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}


def validate(thing: Json) -> None:
    """Raises Refused as the API's own validation would; unknown fields included."""
    kind = str(thing.get("kind"))
    name = str(thing["metadata"].get("name", ""))
    try:
        kubernetes_validate.validate(thing, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Refused(400, f"{kind} in version v1 cannot be handled: {error.message}") from error
    problems = [*_metadata(thing["metadata"])]
    if kind == "Pod":
        problems += _pod(thing["spec"])
    if kind == "ConfigMap" and len(str(thing.get("binaryData", ""))) * 3 // 4 > 1 << 20:
        problems.append("data: Too long: may not be more than 1048576 bytes")
    if problems:
        raise Refused(422, f'{kind} "{name}" is invalid: {"; ".join(problems)}')


def _metadata(metadata: Json) -> Iterator[str]:
    name = str(metadata.get("name", ""))
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        yield f"metadata.name: Invalid value: {name!r}: a lowercase RFC 1123 subdomain must consist"
    for key, value in part(metadata, "labels").items():
        if not (_LABEL_NAME.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            yield f"metadata.labels: Invalid value: {key}={value}"
    for key in part(metadata, "annotations"):
        if not _LABEL_NAME.fullmatch(key):
            yield f"metadata.annotations: Invalid value: {key}"


def _pod(spec: Json) -> Iterator[str]:
    volumes = {volume["name"] for volume in parts(spec, "volumes")}
    for name in volumes:
        if not _VOLUME_NAME.fullmatch(name):
            yield f"spec.volumes.name: Invalid value: {name}"
    if spec.get("dnsPolicy") == "None" and not part(spec, "dnsConfig").get("nameservers"):
        yield "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver"
    for container in spec["containers"]:
        yield from _mounts(parts(container, "volumeMounts"), volumes)
        for kind in ("requests", "limits"):
            for value in part(container, "resources", kind).values():
                if not _QUANTITY.fullmatch(str(value)):
                    yield f"spec.containers.resources.{kind}: Invalid value: {value}"


def _mounts(mounts: list[Json], volumes: set[str]) -> Iterator[str]:
    if len(mounts) != len({mount["mountPath"] for mount in mounts}):
        yield "spec.containers.volumeMounts.mountPath: Invalid value: must be unique"
    for mount in mounts:
        path = mount.get("subPath", "")
        if mount["name"] not in volumes:
            yield f"spec.containers.volumeMounts.name: Not found: {mount['name']}"
        if path.startswith("/") or ".." in path.split("/"):
            yield f"spec.containers.volumeMounts.subPath: Invalid value: {path}"


def admit(pod: Json) -> None:
    """Raises Refused where the pod violates the Pod Security Standard."""
    problems = [*_baseline(pod["spec"]), *_restricted(pod["spec"])]
    if problems:
        name = pod["metadata"]["name"]
        raise Refused(
            403,
            f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": '
            + ", ".join(problems),
        )


def _baseline(spec: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"host namespaces ({field}=true)"
    for container in spec["containers"]:
        if part(container, "securityContext").get("privileged"):
            yield "privileged"
        if any("hostPort" in port for port in parts(container, "ports")):
            yield "hostPort"


def _restricted(spec: Json) -> Iterator[str]:
    outer = part(spec, "securityContext")
    for volume in parts(spec, "volumes"):
        if not set(volume) - {"name"} <= _VOLUME_TYPES:
            yield f'restricted volume types (volume "{volume["name"]}")'
    for container in spec["containers"]:
        own = part(container, "securityContext")
        name = container["name"]
        if own.get("allowPrivilegeEscalation") is not False:
            yield f'allowPrivilegeEscalation != false (container "{name}")'
        capabilities = part(own, "capabilities")
        if "ALL" not in (capabilities.get("drop") or ()) or set(capabilities.get("add", ())) - {
            "NET_BIND_SERVICE"
        }:
            yield f'unrestricted capabilities (container "{name}")'
        if own.get("runAsNonRoot", outer.get("runAsNonRoot")) is not True:
            yield f'runAsNonRoot != true (container "{name}")'
        if own.get("runAsUser", outer.get("runAsUser")) == 0:
            yield f'runAsUser=0 (container "{name}")'
        profile = part(own, "seccompProfile") or part(outer, "seccompProfile")
        if profile.get("type") not in {"RuntimeDefault", "Localhost"}:
            yield f'seccompProfile (container "{name}")'
