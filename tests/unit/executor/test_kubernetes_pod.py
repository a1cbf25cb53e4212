"""The pod that a box is: valid, admitted under "restricted", and never another box's."""

from pathlib import Path
from typing import Any

import pytest

from executor_service.backends.base import MIB, BoxSpec, Limits
from executor_service.backends.kubernetes.pod import Objects, box_of, is_box_of, manifest, pod_name
from executor_service.backends.kubernetes.probe import holes
from executor_service.backends.kubernetes.watch import (
    is_over_its_size,
    is_running,
    why_gone,
    why_hopeless,
)
from executor_service.config import KubernetesConfig
from executor_service.errors import BoxCreateFailed
from tests.fakes.kubernetes.admission import admit, validate
from tests.fakes.kubernetes.errors import Refused
from tests.support.kubernetes_cluster import documented

Json = dict[str, Any]

LIMITS = Limits(memory_bytes=256 * MIB, cpu_count=0.5, tmp_bytes=32 * MIB, workspace_bytes=MIB)
SPEC = BoxSpec("box_1", "own_1", "pool", Path("/w/wsp_1"), LIMITS)
OBJECTS = Objects({"apiVersion": "v1", "kind": "ConfigMap", "name": "r", "uid": "u"}, "supervisor")
LABELS = {"app.kubernetes.io/name": "hermes-sandbox", "org.hermes.owner": "me"}


def pod_of(**chosen: Any) -> Json:
    return manifest(SPEC, KubernetesConfig(**chosen), OBJECTS)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"workspace_claim": "claim"},
        {"host_users": False, "seccomp_profile": "profiles/hermes.json"},
        {"runtime_class": "gvisor", "pull_secrets": ("registry",)},
        {"node_selector": {"pool": "boxes"}, "tolerations": ({"key": "boxes"},)},
    ],
    ids=lambda chosen: "+".join(chosen) or "defaults",
)
def test_every_pod_is_valid_and_restricted(chosen: Json) -> None:
    pod = pod_of(**chosen)
    validate(pod)
    admit(pod)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["cpu"] == "500m"
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    assert spec["shareProcessNamespace"] is False
    assert (spec["dnsPolicy"], spec["restartPolicy"]) == ("None", "Never")
    assert spec["activeDeadlineSeconds"] == 48 * 3600
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["metadata"]["ownerReferences"] == [OBJECTS.owner]


def test_a_node_sets_aside_no_more_than_is_chosen() -> None:
    resources = pod_of(cpu_request=0.1)["spec"]["containers"][0]["resources"]
    assert (resources["requests"]["cpu"], resources["limits"]["cpu"]) == ("100m", "500m")
    resources = pod_of(cpu_request=2)["spec"]["containers"][0]["resources"]
    assert resources["requests"]["cpu"] == "500m"
    assert pod_of(priority_class="low")["spec"]["priorityClassName"] == "low"


def test_what_an_operator_chooses_is_in_the_pod() -> None:
    spec = pod_of(host_users=False, runtime_class="kata", seccomp_profile="p.json")["spec"]
    assert (spec["hostUsers"], spec["runtimeClassName"]) == (False, "kata")
    assert spec["containers"][0]["command"][-2:] == ["--max-processes", "256"]
    profile = {"type": "Localhost", "localhostProfile": "p.json"}
    assert spec["securityContext"]["seccompProfile"] == profile
    assert {"hostUsers", "runtimeClassName"}.isdisjoint(pod_of()["spec"])
    claimed = pod_of(workspace_claim="claim")["spec"]
    (mount,) = [
        each
        for each in claimed["containers"][0]["volumeMounts"]
        if each["mountPath"] == "/workspace"
    ]
    assert mount["subPath"] == "wsp_1"
    # Its own files count against the claim, not against the node.
    disk = claimed["containers"][0]["resources"]["limits"]["ephemeral-storage"]
    assert disk == str(64 * MIB)


def test_all_memory_volumes_fit_into_the_memory() -> None:
    sizes = [
        int(volume["emptyDir"]["sizeLimit"])
        for volume in pod_of()["spec"]["volumes"]
        if volume.get("emptyDir", {}).get("medium") == "Memory"
    ]
    assert len(sizes) == 4
    assert sum(sizes) < LIMITS.memory_bytes
    small = BoxSpec("b", "o", "p", Path("/w"), Limits(memory_bytes=64 * MIB))
    with pytest.raises(BoxCreateFailed, match="memory limit must exceed"):
        manifest(small, KubernetesConfig(), OBJECTS)


def without(field: str) -> Json:
    spec = pod_of()["spec"]
    del spec["securityContext"][field]
    return spec


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (without("seccompProfile"), "seccompProfile"),
        (pod_of()["spec"] | {"hostNetwork": True}, "host namespaces"),
        (
            pod_of()["spec"] | {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
            "restricted volume types",
        ),
    ],
)
def test_the_stand_in_refuses_what_is_not_restricted(spec: Json, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        admit({"metadata": {"name": "a"}, "spec": spec})


def test_what_is_documented_is_valid() -> None:
    things = documented()
    for thing in things.values():
        validate(thing)
    labels = pod_of()["metadata"]["labels"]
    assert list(holes([things["NetworkPolicy"]], labels)) == []
    enforced = things["Namespace"]["metadata"]["labels"]
    assert enforced["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("key", ["box_1", "sbx_06h03r"])
def test_each_key_has_a_pod_of_its_own(key: str) -> None:
    spec = BoxSpec(key, "o", "p", Path("/w"), LIMITS)
    pod = manifest(spec, KubernetesConfig(), OBJECTS)
    validate(pod)
    pod["metadata"]["uid"] = "uid"
    assert is_box_of(pod, "o")
    assert not is_box_of(pod, "p")
    assert box_of(pod).key == key
    pod["metadata"]["name"] = pod_name("other")
    assert not is_box_of(pod, "o")


def policy(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"podSelector": {}, **spec}}


DENY = policy("deny", policyTypes=["Ingress", "Egress"])


@pytest.mark.parametrize(
    ("policies", "complaint"),
    [
        ([], "no policy denies ingress"),
        ([policy("in", policyTypes=["Ingress"])], "no policy denies egress"),
        ([policy("in")], "no policy denies egress"),
        (
            [policy("other", podSelector={"matchLabels": {"a": "b"}}, policyTypes=["Egress"])],
            "no policy denies ingress",
        ),
        ([DENY, policy("dns", egress=[{}])], "the policy dns allows them egress"),
        (
            [
                DENY,
                policy("box", podSelector={"matchLabels": {"org.hermes.box": "x"}}, egress=[{}]),
            ],
            "the policy box allows them egress",
        ),
        (
            [
                policy(
                    "one",
                    podSelector={"matchLabels": {"org.hermes.box": "x"}},
                    policyTypes=["Ingress", "Egress"],
                )
            ],
            "no policy denies ingress",
        ),
    ],
)
def test_a_network_is_found(policies: list[Json], complaint: str) -> None:
    found = list(holes(policies, LABELS))
    assert any(each.startswith(complaint) for each in found), found


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"app.kubernetes.io/name": "hermes-sandbox"}},
        {"matchExpressions": [{"key": "org.hermes.owner", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]},
    ],
)
def test_no_network_is_found(selector: Json) -> None:
    deny = policy("deny", podSelector=selector, policyTypes=["Ingress", "Egress"])
    others = policy("web", podSelector={"matchLabels": {"tier": "web"}}, ingress=[{}], egress=[{}])
    assert list(holes([deny, others], LABELS)) == []


def status(state: Json, **more: Any) -> Json:
    container = {"name": "sandbox", "restartCount": 0, "state": state}
    status = {"phase": "Running", "containerStatuses": [container], **more}
    return {"metadata": {"uid": "u"}, "status": status}


@pytest.mark.parametrize(
    ("message", "is_its_own"),
    [
        ('Usage of EmptyDir volume "workspace" exceeds the limit "16Mi". ', True),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 80Mi. ", True),
        ('Container sandbox exceeded its local ephemeral storage limit "80Mi". ', True),
        (
            "The node was low on resource: ephemeral-storage. Container sandbox was using 20Mi",
            False,
        ),
        ("The node was low on resource: memory. ", False),
    ],
)
def test_an_eviction_is_the_pod_s_own_fault_or_its_node_s(message: str, is_its_own: bool) -> None:
    evicted = status({}, phase="Failed", reason="Evicted", message=message)
    assert is_over_its_size(evicted) == is_its_own
    assert not is_over_its_size(status({}, phase="Failed", reason="Other", message=message))


def test_the_status_tells_what_has_become_of_a_pod() -> None:
    running = status({"running": {}})
    assert is_running(running)
    assert (why_gone(running, "u"), why_hopeless(running)) == ("", "")
    assert why_gone(running, "v") == "another pod has its name"
    evicted = status({}, phase="Failed", reason="Evicted", message="low on\nmemory")
    assert why_gone(evicted, "u") == "its pod has ended: Evicted: low on memory"
    killed = status({"terminated": {"reason": "OOMKilled", "exitCode": 137}})
    assert why_gone(killed, "u") == "its container has ended: OOMKilled: exit code 137"
    restarted = status({"running": {}})
    restarted["status"]["containerStatuses"][0]["restartCount"] = 1
    assert why_gone(restarted, "u")
    running["metadata"]["deletionTimestamp"] = "now"
    assert why_gone(running, "u") == "its pod is being deleted"
    pulling = status({"waiting": {"reason": "ContainerCreating"}})
    assert why_hopeless(pulling) == ""
    assert why_hopeless(status({"waiting": {"reason": "InvalidImageName"}})) == "InvalidImageName"
