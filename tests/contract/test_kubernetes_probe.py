"""When the kubernetes backend says no, and what it then tells to do."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from executor_service.backends.base import Enforcement, WorkspacePlace
from executor_service.backends.kubernetes.api import Json
from executor_service.backends.kubernetes.backend import KubernetesBackend
from executor_service.backends.kubernetes.pod import SELECTED
from executor_service.config import KubernetesConfig
from executor_service.records.sandboxes import Isolation
from tests.fakes.kubernetes.faults import Fault
from tests.fakes.kubernetes.running import StandIn
from tests.support.kubernetes_cluster import backend_of

pytestmark = pytest.mark.slow


@pytest.fixture
async def changed(stand_in: StandIn) -> AsyncIterator[StandIn]:
    """A cluster that is as it was again after the test."""
    there = stand_in.cluster
    before = (there.rights, there.quota)
    policies = there.store.select("networkpolicies")
    yield stand_in
    there.rights, there.quota = before
    there.faults.clear()
    for policy in there.store.select("networkpolicies"):
        there.store.remove("networkpolicies", policy)
    for policy in policies:
        there.store.add("networkpolicies", policy)


async def refusal(stand_in: StandIn, **chosen: Any) -> str:
    backend = backend_of(stand_in, "probe", **chosen)
    found = await backend.probe()
    await backend.close()
    assert not found.available
    assert "\n" not in found.reason
    assert found.limits.memory is Enforcement.NONE
    return found.reason


async def test_it_says_how_boxes_run(stand_in: StandIn) -> None:
    backend = backend_of(stand_in, "probe")
    found = await backend.probe()
    await backend.close()
    assert found.available
    assert found.reason.startswith("Kubernetes v1.")
    assert "namespace hermes-sandboxes; runtime class of the nodes" in found.reason
    assert found.isolation is Isolation.NAMESPACE
    assert found.workspaces is WorkspacePlace.IN_BOX
    assert found.limits.workspace is Enforcement.WATCHED
    assert stand_in.cluster.store.select("pods") == []


async def test_it_repeats_what_only_the_operator_knows(stand_in: StandIn) -> None:
    backend = backend_of(
        stand_in,
        "probe",
        runtime_class="kata",
        isolation=Isolation.MICROVM,
        node_limits_pids=False,
        workspace_claim="claim",
    )
    found = await backend.probe()
    await backend.close()
    assert found.isolation is Isolation.MICROVM
    assert found.limits.pids is found.limits.workspace is Enforcement.NONE
    assert found.workspaces is WorkspacePlace.THERE
    assert "runtime class kata" in found.reason
    assert "processes are not limited" in found.reason


async def test_without_a_policy_that_denies_all_there_are_no_boxes(changed: StandIn) -> None:
    store = changed.cluster.store
    (policy,) = store.select("networkpolicies")
    store.remove("networkpolicies", policy)
    reason = await refusal(changed)
    assert "would have a network: no policy denies ingress" in reason
    assert "apply the NetworkPolicy of docs/operators/backends/kubernetes.md" in reason
    store.add("networkpolicies", policy)
    rules: list[Json] = [{}]
    opens = {"podSelector": {"matchLabels": SELECTED}, "egress": rules}
    store.add("networkpolicies", {"metadata": {"name": "dns", "uid": "1"}, "spec": opens})
    assert "the policy dns allows them egress" in await refusal(changed)


async def test_what_the_cluster_would_not_admit_is_told(changed: StandIn) -> None:
    changed.cluster.quota = 0
    assert "admits no sandbox" in (reason := await refusal(changed))
    assert "exceeded quota" in reason


@pytest.mark.parametrize(
    ("resource", "verb"), [("pods", "create"), ("pods/exec", "get"), ("networkpolicies", "list")]
)
async def test_a_missing_right_is_named(changed: StandIn, resource: str, verb: str) -> None:
    there = changed.cluster
    left = [rule for rule in there.rights.rules if resource not in rule["resources"]]
    there.rights = replace(there.rights, rules=left)
    reason = await refusal(changed)
    assert f'cannot {verb} resource "{resource}"' in reason
    assert "apply the Role of docs/" in reason


async def test_a_wrong_token_is_told(changed: StandIn) -> None:
    there = changed.cluster
    there.rights = replace(there.rights, token="another")
    assert "the cluster refuses: Unauthorized" in await refusal(changed)


async def test_an_ailing_server_is_told(changed: StandIn) -> None:
    changed.cluster.faults.append(Fault(500, "GET", "/version"))
    assert "made to fail" in await refusal(changed)


@pytest.fixture
def broken(stand_in: StandIn, tmp_path: Path) -> dict[str, KubernetesConfig]:
    """Addresses at which nobody can be asked, and what is said of them."""
    text = stand_in.kubeconfig.read_text()
    url = text.partition('"server": "')[2].partition('"')[0]

    def changed(name: str, old: str, new: str) -> KubernetesConfig:
        (tmp_path / name).write_text(text.replace(old, new))
        return KubernetesConfig(kubeconfig=str(tmp_path / name))

    return {
        "executor.kubernetes.kubeconfig": KubernetesConfig(),
        f"there is no file {tmp_path}/none": KubernetesConfig(kubeconfig=str(tmp_path / "none")),
        "Expected object with name no-such": KubernetesConfig(
            kubeconfig=str(stand_in.kubeconfig), context="no-such"
        ),
        "no Kubernetes API server answers": changed("silent", url, "https://127.0.0.1:9"),
        "CERTIFICATE_VERIFY_FAILED": changed("untrusted", "certificate-authority", "ignored"),
    }


async def test_nobody_there_is_told(broken: dict[str, KubernetesConfig]) -> None:
    for complaint, config in broken.items():
        backend = KubernetesBackend("probe", b"", config)
        found = await backend.probe()
        await backend.close()
        assert not found.available
        assert complaint in found.reason
