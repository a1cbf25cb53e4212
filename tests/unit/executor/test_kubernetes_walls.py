"""Which pods of somebody else's are walled in, and what others are told to change."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from executor_service.backends.base import BoxSpec, Limits
from executor_service.backends.kubernetes.pod import KubernetesOptions
from executor_service.backends.kubernetes.reading import Json
from executor_service.backends.kubernetes.walls import gaps, quantity
from tests.kubernetes_cluster import documented

SPEC = BoxSpec("probe", "owner", "pool", Path("/x"))


def template() -> Json:
    return deepcopy(documented(with_claims=True)["SandboxTemplate"]["spec"]["podTemplate"])


def found(pod: Json, limits: Limits = SPEC.limits, **options: Any) -> list[str]:
    spec = BoxSpec("probe", "owner", "pool", Path("/x"), limits)
    return list(gaps(pod, spec, KubernetesOptions(**options)))


def test_the_documented_template_is_walled_in() -> None:
    assert found(template()) == []


SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
CHANGES: list[tuple[str, Callable[[Json, Json], object], str]] = [
    ("no label", lambda pod, _: pod["metadata"]["labels"].clear(), "the label app.kubernetes"),
    ("node network", lambda pod, _: pod["spec"].update(hostNetwork=True), "hostNetwork must not"),
    ("node processes", lambda pod, _: pod["spec"].update(hostPID=True), "hostPID must not"),
    ("restarts", lambda pod, _: pod["spec"].pop("restartPolicy"), "restartPolicy must be"),
    ("token", lambda pod, _: pod["spec"].pop("automountServiceAccountToken"), "automountService"),
    ("services", lambda pod, _: pod["spec"].pop("enableServiceLinks"), "enableServiceLinks must"),
    ("names", lambda pod, _: pod["spec"].pop("dnsPolicy"), "dnsPolicy must be"),
    ("runtime", lambda pod, _: pod["spec"].update(runtimeClassName="x"), "runtimeClassName must"),
    ("grace", lambda pod, _: pod["spec"].pop("terminationGracePeriodSeconds"), "terminationGrace"),
    ("another", lambda pod, box: pod["spec"]["containers"].append(box), "containers must be one"),
    ("first", lambda pod, box: pod["spec"].update(initContainers=[box]), "initContainers must"),
    ("program", lambda _, box: box["command"].append("-x"), "command must be"),
    ("arguments", lambda _, box: box.update(args=["x"]), "command must be"),
    ("secret", lambda _, box: box["env"].append({"name": "A", **SECRET}), "env must have plain"),
    ("secrets", lambda _, box: box.update(envFrom=[{"secretRef": {"name": "s"}}]), "env must"),
    ("hook", lambda _, box: box.update(lifecycle={"postStart": {}}), "lifecycle must not"),
    ("root", lambda pod, _: pod["spec"]["securityContext"].update(runAsUser=0), "securityContext"),
    (
        "own root",
        lambda _, box: box["securityContext"].update(runAsUser=0),
        "securityContext.runAsUser must be 1000",
    ),
    (
        "filter",
        lambda pod, _: pod["spec"]["securityContext"].pop("seccompProfile"),
        "securityContext.seccompProfile",
    ),
    ("privileged", lambda _, box: box["securityContext"].update(privileged=True), "securityCont"),
    (
        "escalation",
        lambda _, box: box["securityContext"].pop("allowPrivilegeEscalation"),
        "securityContext.allowPrivilegeEscalation must be false",
    ),
    (
        "writable",
        lambda _, box: box["securityContext"].pop("readOnlyRootFilesystem"),
        "securityContext.readOnlyRootFilesystem must be true",
    ),
    (
        "capability",
        lambda _, box: box["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
        "securityContext.capabilities",
    ),
    ("no limit", lambda _, box: box["resources"]["limits"].pop("memory"), "resources.limits.mem"),
    (
        "memory",
        lambda _, box: box["resources"]["limits"].update(memory="4Gi"),
        "resources.limits.memory must be at most 2147483648",
    ),
    (
        "request",
        lambda _, box: box["resources"].update(requests={"cpu": "100m"}),
        "resources.requests.cpu",
    ),
    (
        "node folder",
        lambda pod, _: pod["spec"]["volumes"][1].update(hostPath={"path": "/"}, emptyDir=None),
        "/workspace must be an emptyDir with a sizeLimit",
    ),
    (
        "endless",
        lambda pod, _: pod["spec"]["volumes"][1]["emptyDir"].clear(),
        "/workspace must be an emptyDir with a sizeLimit",
    ),
    (
        "large",
        lambda pod, _: pod["spec"]["volumes"][2]["emptyDir"].update(sizeLimit="1Gi"),
        "the sizeLimit of /tmp must be at most 536870912",
    ),
    ("no tmp", lambda _, box: box["volumeMounts"].pop(2), "/tmp must be an emptyDir of the"),
    (
        "own supervisor",
        lambda _, box: box["volumeMounts"][0].pop("readOnly"),
        "/opt/hermes/supervisor.pyz must not be mounted, or be a ConfigMap",
    ),
    (
        "mounted secret",
        lambda pod, _: pod["spec"]["volumes"][0].update(secret={"secretName": "s"}, configMap=None),
        "/opt/hermes/supervisor.pyz must not be mounted, or be a ConfigMap",
    ),
]


@pytest.mark.parametrize(
    ("change", "complaint"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES]
)
def test_what_is_not_walled_in_is_named(
    change: Callable[[Json, Json], object], complaint: str
) -> None:
    pod = template()
    change(pod, pod["spec"]["containers"][0])
    assert any(each.startswith(complaint) for each in found(pod)), found(pod)


def test_sizes_are_those_of_the_settings() -> None:
    small = Limits(memory_bytes=2**28, tmp_bytes=2**25, workspace_bytes=2**30)
    complaints = " ".join(found(template(), small))
    for what in ("limits.memory", "limits.ephemeral-storage", "of /tmp", "of /workspace"):
        assert f"{what} must be at most" in complaints
    pod = template()
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "512Mi"
    assert found(pod) == ["resources.limits.memory must exceed the sizes of all volumes in memory"]


def test_what_the_operator_expects_must_be_there() -> None:
    pod = template()
    assert found(pod, runtime_class="gvisor") == ['runtimeClassName must be "gvisor"']
    assert "hostUsers must be false" in found(pod, host_users=False)
    assert any("Localhost" in each for each in found(pod, seccomp_profile="mine.json"))
    pod["spec"]["runtimeClassName"] = "gvisor"
    assert found(pod, runtime_class="gvisor") == []


def test_quantities() -> None:
    assert [quantity(each) for each in ("1", "250m", "1k", "2Mi", "1.5Gi")] == [
        *(1, 0.25, 1000, 2 * 2**20, 1.5 * 2**30)
    ]
