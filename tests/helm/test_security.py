"""What the chart makes keeps to the Pod Security Standard `restricted`, and to checkov's rules."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.checkov import check_failures, checked
from tests.helm.charts import SETS, WORKLOADS, Json, containers_of, pod_template, rendered_set
from tests.helm.pod_security import violations

EXCEPTIONS = (
    ("CKV_K8S_15", r".*", "tags are versions, and digests count before them: no need to ask"),
    ("CKV_K8S_43", r"(?!production/).*", "whoever installs says which digest; production does"),
    ("CKV_K8S_31", r"singularity/StatefulSet.*", "user namespaces need a profile of the node's"),
    ("CKV_K8S_38", r".*/StatefulSet\.hermes\.hermes-executor", "it makes the pods of sandboxes"),
    ("CKV_K8S_38", r"kind/.*\.hermes-certificates", "it writes the Secrets of certificates"),
    ("CKV_K8S_40", r"kind/.*-postgresql", "999 is the user of PostgreSQL's own image"),
    ("CKV_K8S_8", r".*/Pod\.hermes\.hermes-test-sandbox", "it ends by itself, and has a deadline"),
    ("CKV_K8S_9", r".*/Pod\.hermes\.hermes-test-sandbox", "nobody calls it"),
)  # fmt: skip
"""Which check need not hold, for what, and why."""


@pytest.mark.parametrize("name", SETS)
def test_every_pod_keeps_to_restricted(name: str) -> None:
    workloads = rendered_set(name).of(*WORKLOADS)
    assert len(workloads) >= 6
    found = {each["metadata"]["name"]: violations(pod_template(each)) for each in workloads}
    assert not {name: why for name, why in found.items() if why}


@pytest.mark.parametrize("name", SETS)
def test_only_the_executor_and_who_writes_certificates_has_a_token(name: str) -> None:
    chart = rendered_set(name)
    holders = {
        each["metadata"]["name"]
        for each in chart.of(*WORKLOADS)
        if pod_template(each)["spec"]["automountServiceAccountToken"]
    }
    expected = {"hermes-certificates"} if name == "kind" else set[str]()
    if chart.config["executor"]["backend"] == "kubernetes":
        expected.add("hermes-executor")
    assert holders == expected


@pytest.mark.parametrize("name", SETS)
def test_only_the_executor_has_the_secret_of_its_backend(name: str) -> None:
    chart = rendered_set(name)
    secret = {
        "ssh-only": "hermes-ssh",
        "modal-only": "hermes-modal",
        "docker-remote": "hermes-engine",
        "production": "hermes-egress",
    }.get(name, "")
    holders = {
        each["metadata"]["name"]
        for each in chart.of(*WORKLOADS)
        for volume in pod_template(each)["spec"]["volumes"]
        if volume.get("secret", {}).get("secretName") == secret
    }
    assert holders == ({"hermes-executor"} if secret else set())


def test_no_secret_is_in_the_environment() -> None:
    for name in SETS:
        for workload in rendered_set(name).of(*WORKLOADS):
            for container in containers_of(pod_template(workload)):
                for variable in container.get("env", ()):
                    assert "secretKeyRef" not in variable.get("valueFrom", {}), variable


def set_in(*path: str | int, to: object) -> Callable[[Json], None]:
    def change(pod: Json) -> None:
        inner = pod["spec"]
        for key in path[:-1]:
            inner = inner[key] if isinstance(key, int) else inner.setdefault(key, {})
        inner[path[-1]] = to

    return change


BROKEN = {
    "hostNetwork": set_in("hostNetwork", to=True),
    "of type hostPath": set_in("volumes", 0, "hostPath", to={"path": "/"}),
    "sysctl": set_in("securityContext", "sysctls", to=[{"name": "kernel.msgmax", "value": "1"}]),
    "runAsUser 0": set_in("securityContext", "runAsUser", to=0),
    "runAsNonRoot": set_in("containers", 0, "securityContext", "runAsNonRoot", to=None),
    "seccompProfile": set_in("securityContext", "seccompProfile", to=None),
    "Unconfined": set_in("securityContext", "seccompProfile", "type", to="Unconfined"),
    "privileged": set_in("containers", 0, "securityContext", "privileged", to=True),
    "allowPrivilege": set_in(
        "containers", 0, "securityContext", "allowPrivilegeEscalation", to=None
    ),
    "not dropped": set_in("containers", 0, "securityContext", "capabilities", to={}),
    "are added": set_in(
        "containers",
        0,
        "securityContext",
        "capabilities",
        to={"drop": ["ALL"], "add": ["SYS_PTRACE"]},
    ),
    "hostPort": set_in("containers", 0, "ports", 0, "hostPort", to=80),
    "procMount": set_in("containers", 0, "securityContext", "procMount", to="Unmasked"),
    "appArmorProfile": set_in("securityContext", "appArmorProfile", to={"type": "Unconfined"}),
    "seLinuxOptions": set_in("securityContext", "seLinuxOptions", to={"type": "spc_t"}),
    "hostProcess": set_in("securityContext", "windowsOptions", to={"hostProcess": True}),
    "another host": set_in("containers", 0, "livenessProbe", "httpGet", "host", to="10.0.0.1"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_what_breaks_the_standard_is_seen(problem: str) -> None:
    pod = deepcopy(pod_template(rendered_set("minimal").service("agent")))
    assert violations(pod) == []
    BROKEN[problem](pod)
    assert any(problem in each for each in violations(pod)), violations(pod)


@pytest.mark.timeout(180)
def test_checkov_finds_nothing_that_is_not_justified(tmp_path: Path) -> None:
    for name in SETS:
        text = yaml.dump_all(rendered_set(name).objects, Dumper=yaml.CSafeDumper)
        (tmp_path / f"{name}.yaml").write_text(text)
    report = checked(tmp_path, "kubernetes")
    assert report["summary"]["passed"] > 3000
    check_failures(report, EXCEPTIONS)
