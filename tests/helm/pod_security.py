"""The Pod Security Standard `restricted`, as the documentation of Kubernetes has it.

Every control of `baseline` and `restricted`, over all containers of a pod.
"""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

VOLUMES = frozenset(
    (
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
SYSCTLS = frozenset(
    (
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies"),
        *("net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
    )
)
SELINUX_TYPES = frozenset(
    ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
)
PROFILES = frozenset(("RuntimeDefault", "Localhost"))
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def violations(pod: Json) -> list[str]:
    """What of a pod a namespace that enforces `restricted` would refuse."""
    spec: Json = pod["spec"]
    found = [*_pod(spec)]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            found += [f"{container['name']}: {each}" for each in _container(container, spec)]
    return found


def _pod(spec: Json) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes") or ():
        for kind in volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']} of type {kind}"
    outer: Json = spec.get("securityContext") or {}
    for sysctl in outer.get("sysctls") or ():
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    yield from _shared(outer)


def _shared(context: Json) -> Iterator[str]:
    """What is the same for a pod and for a container."""
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield "hostProcess"
    selinux: Json = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "seLinuxOptions"
    if (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in PROFILES:
        yield "appArmorProfile"
    if (context.get("seccompProfile") or {}).get("type", "RuntimeDefault") not in PROFILES:
        yield "seccompProfile Unconfined"
    if context.get("runAsUser") == 0:
        yield "runAsUser 0"
    if context.get("runAsNonRoot") is False:
        yield "runAsNonRoot false"


def _container(container: Json, spec: Json) -> Iterator[str]:
    outer: Json = spec.get("securityContext") or {}
    own: Json = container.get("securityContext") or {}
    yield from _shared(own)
    if own.get("privileged"):
        yield "privileged"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield "hostPort"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    yield from _capabilities(own.get("capabilities") or {})
    if own.get("runAsNonRoot", outer.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot"
    if not ((own.get("seccompProfile") or outer.get("seccompProfile")) or {}).get("type"):
        yield "seccompProfile"
    yield from _handlers(container)


def _capabilities(capabilities: Json) -> Iterator[str]:
    if "ALL" not in (capabilities.get("drop") or ()):
        yield "capabilities are not dropped"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield "capabilities are added"


def _handlers(container: Json) -> Iterator[str]:
    lifecycle: Json = container.get("lifecycle") or {}
    handlers: list[Json] = [container[probe] for probe in PROBES if container.get(probe)]
    handlers += lifecycle.values()
    for handler in handlers:
        for kind in ("httpGet", "tcpSocket"):
            if (handler.get(kind) or {}).get("host"):
                yield f"{kind} to another host"
