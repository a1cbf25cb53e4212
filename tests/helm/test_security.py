"""What the chart makes keeps to the Pod Security Standard `restricted`, and to checkov's rules."""

from pathlib import Path

import pytest
import yaml

from tests.helm.charts import SETS, WORKLOADS, containers_of, pod_template, rendered_set
from tests.support.checkov import check_failures, checked

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


CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
SECCOMP = {"RuntimeDefault", "Localhost"}
VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


@pytest.mark.parametrize("name", SETS)
def test_every_pod_keeps_to_restricted(name: str) -> None:
    workloads = rendered_set(name).of(*WORKLOADS)
    assert len(workloads) >= 6
    for each in workloads:
        spec, named = pod_template(each)["spec"], each["metadata"]["name"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), named
        assert spec["securityContext"]["runAsNonRoot"] is True, named
        assert spec["securityContext"]["runAsUser"] > 0, named
        assert spec["securityContext"]["seccompProfile"]["type"] in SECCOMP, named
        assert {kind for volume in spec["volumes"] for kind in volume} - {"name"} <= VOLUMES, named
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["securityContext"] == CONFINED, named
            assert not any("hostPort" in port for port in container.get("ports", ())), named


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


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_checkov_finds_nothing_that_is_not_justified(tmp_path: Path) -> None:
    for name in SETS:
        text = yaml.dump_all(rendered_set(name).objects, Dumper=yaml.CSafeDumper)
        (tmp_path / f"{name}.yaml").write_text(text)
    report = checked(tmp_path, "kubernetes")
    assert report["summary"]["passed"] > 3000
    check_failures(report, EXCEPTIONS)
